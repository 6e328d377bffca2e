// SPDX-License-Identifier: Apache-2.0

// Package hosts parses hosts, and lists of hosts that events and Secrets may be sent to.
// Operators write the lists in config-cdevents, and owners of Secrets in an annotation.
//
// Its invariants: an invalid list allows nothing. Hosts compare in the form in which they are
// dialled, and what would be dialled in another form is no host. Names compare as in DNS,
// ignoring case and a final dot. Addresses compare by value, however they are written, and are
// below no name.
package hosts

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// List is a list of hosts, separated by commas. It is comparable; the empty List has no
// hosts.
type List string

// below begins an entry that stands for all names below one.
const below = "*."

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
		parsed, err := parse(entry)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, parsed)
	}
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	return List(strings.Join(all, ",")), nil
}

func parse(entry string) (string, error) {
	name, all := strings.CutPrefix(entry, below)
	host, err := Of(name)
	switch {
	case err == nil && !all:
		return host.String(), nil
	case err == nil && host.name != "":
		return below + host.name, nil
	case err == nil:
		err = fmt.Errorf("there are no names below the address %s", host)
	}
	return "", fmt.Errorf("%q is not a host (%w); use a name such as hooks.example.com, *.example.com for all "+
		"names below it, or an IP address, without scheme, port and path", entry, err)
}

// Empty says whether the list has no hosts.
func (l List) Empty() bool { return l == "" }

// Allows says whether a host is on the list.
func (l List) Allows(host Host) bool {
	return slices.ContainsFunc(strings.Split(string(l), ","), func(entry string) bool {
		if domain, all := strings.CutPrefix(entry, below); all {
			return host.Below(domain)
		}
		return entry != "" && entry == host.String()
	})
}
