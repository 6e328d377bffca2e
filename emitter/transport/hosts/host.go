// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"golang.org/x/net/idna"
)

// Host is a host as it is dialled: an address, or a name in DNS. Use Of to make one.
type Host struct {
	address netip.Addr
	// name is in lowercase, without a final dot; empty for an address.
	name string
}

// Of returns the host in a URL or a list, without a port. It fails for hosts that are dialled
// as something else than they look like:
//
//   - An address with a zone ends in any text, and is dialled without it.
//   - A name that is not ASCII is dialled in a form that no rule for ASCII foresees: "ſvc" is
//     looked up as "svc", and "gİthub" as a name that begins with "xn--".
//   - A name that ends in a number is an address to some resolvers, such as 10.1.515.
func Of(text string) (Host, error) {
	inside, bracketed := strings.CutPrefix(text, "[")
	if bracketed {
		if inside, bracketed = strings.CutSuffix(inside, "]"); !bracketed {
			return Host{}, fmt.Errorf("%q has only one bracket", text)
		}
	}
	switch ip, err := netip.ParseAddr(inside); {
	case err == nil && ip.Zone() != "":
		return Host{}, fmt.Errorf("%q is an address with a zone; use the address without %q", text, "%"+ip.Zone())
	case err == nil:
		return Host{address: ip.Unmap()}, nil
	case !isASCII(text):
		return Host{}, fmt.Errorf("%q is not ASCII; %s", text, spelling(text))
	}
	name := strings.ToLower(strings.TrimSuffix(text, "."))
	if bracketed || len(name) > longest || !names.MatchString(name) || numbers.MatchString(name) {
		return Host{}, fmt.Errorf("%q is neither a name in DNS nor an address", text)
	}
	return Host{name: name}, nil
}

// longest is the length of a name in DNS.
const longest = 253

var (
	// names have underscores too: they are not in host names, but in names that resolve.
	names = regexp.MustCompile(`^` + label + `(\.` + label + `)*$`)
	// numbers matches names that a resolver may read as an IPv4 address.
	numbers = regexp.MustCompile(`(^|\.)([0-9]+|0x[0-9a-f]*)$`)
)

const label = `[a-z0-9_]([-a-z0-9_]{0,61}[a-z0-9_])?`

func isASCII(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r > '~' }) < 0
}

// spelling says how to write a name that is not ASCII.
func spelling(name string) string {
	ascii, err := idna.Lookup.ToASCII(name)
	if err != nil {
		return "use a name in ASCII"
	}
	return fmt.Sprintf("write it as it is looked up, %q, if that is the host you mean", ascii)
}

// String returns the host in the form in which hosts are compared.
func (h Host) String() string {
	if h.address.IsValid() {
		return h.address.String()
	}
	return h.name
}

// Below says whether the host is a name below a domain, at any depth. No address is.
func (h Host) Below(domain string) bool {
	above, found := strings.CutSuffix(h.name, "."+domain)
	return found && above != ""
}
