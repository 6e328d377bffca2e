// Package hosts parses lists of hosts that events and Secrets may be sent to. Operators write
// them in config-cdevents, and owners of Secrets in an annotation.
//
// Its invariants: an invalid list allows nothing. Names compare as in DNS, ignoring case and a
// final dot. Addresses compare by value, however they are written.
package hosts

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// List is a list of hosts, separated by commas. It is comparable; the empty List has no
// hosts.
type List string

// Parse parses a list such as "hooks.example.com, *.svc.cluster.local, 10.1.2.3".
// "*.example.com" matches every name below example.com, at any depth, but not example.com
// itself.
func Parse(text string) (List, error) {
	var all []string
	var errs []error
	for _, entry := range strings.Split(text, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		if err := check(entry); err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, canonical(entry))
	}
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	return List(strings.Join(all, ",")), nil
}

func check(entry string) error {
	if _, ok := address(entry); ok {
		return nil
	}
	name := canonical(strings.TrimPrefix(entry, "*."))
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return fmt.Errorf("%q is not a host; use a name such as hooks.example.com, *.example.com for all names below it, or an IP address, without scheme, port and path", entry)
	}
	return nil
}

// Empty says whether the list has no hosts.
func (l List) Empty() bool { return l == "" }

// Allows says whether a host, without a port, is on the list.
func (l List) Allows(host string) bool {
	host = canonical(host)
	return slices.ContainsFunc(strings.Split(string(l), ","), func(entry string) bool {
		if below, ok := strings.CutPrefix(entry, "*"); ok {
			return len(host) > len(below) && strings.HasSuffix(host, below)
		}
		return entry != "" && entry == host
	})
}

// canonical returns the canonical form of a host.
func canonical(host string) string {
	if ip, ok := address(host); ok {
		return ip.String()
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

func address(host string) (netip.Addr, bool) {
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return ip.Unmap(), err == nil
}
