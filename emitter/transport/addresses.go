// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport/hosts"
)

// Addresses restricts where sources may send to. The author of a source makes the controller
// open connections that the author may not be able to open. The zero value therefore refuses
// what only the node can reach: loopback, and link-local addresses, where cloud providers
// serve credentials.
//
// It checks the resolved address when dialing, so a name that resolves differently the second
// time gains nothing. With an HTTP proxy, that is the proxy's address.
type Addresses struct {
	// Allowed holds prefixes that sources may send to although they are refused by
	// default, such as that of a sink on the same node. Refused and RefusedPorts win.
	Allowed []netip.Prefix
	// Refused holds further prefixes, such as that of the API server.
	Refused []netip.Prefix
	// RefusedPorts returns single ports that are refused, such as the API server's on a
	// node where others listen too. It is called for each connection; nil for none.
	RefusedPorts func() []netip.AddrPort
	// Hosts returns the hosts that a sink may have. It is called for each attempt; nil or
	// an empty list allows any host.
	Hosts func() hosts.List
}

// Permit returns an error if the operator does not allow a host.
func (a Addresses) Permit(host hosts.Host) error {
	if a.Hosts == nil {
		return nil
	}
	if list := a.Hosts(); !list.Empty() && !list.Allows(host) {
		return fmt.Errorf("events may not be sent to host %q; ask an operator to add it to sink-hosts in "+
			"ConfigMap config-cdevents, or use another sink", host)
	}
	return nil
}

// RefusedError says that a sink has an address that no source may send to.
type RefusedError struct {
	Address netip.Addr
	Reason  string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("address %s is %s, and no source may send events there; use a sink that has its own address",
		e.Address, e.Reason)
}

// nat64 wraps an IPv4 address in its last four bytes (RFC 6052).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// reserved are addresses without a sink, besides those that package netip knows.
var reserved = []struct {
	why      string
	prefixes []netip.Prefix
}{
	{"a cloud provider's metadata service", prefixes(
		"100.100.100.200/32", // Alibaba Cloud
		"168.63.129.16/32",   // Azure's WireServer
		"192.0.0.192/32",     // Oracle Cloud
		"fd00:ec2::/32",      // AWS: metadata, DNS, time, pod identity
		"fd20:ce::254/128",   // Google Cloud
		"fd00:42::42/128",    // Scaleway
	)},
	// A gateway turns these into IPv4 addresses that cannot be checked here.
	{"an IPv4 address inside an IPv6 address", prefixes(
		"::/96",           // IPv4-compatible, RFC 4291
		"::ffff:0:0:0/96", // IPv4-translated, RFC 2765
		"64:ff9b:1::/48",  // NAT64 for local use, RFC 8215
		"2001::/32",       // Teredo, RFC 4380
		"2002::/16",       // 6to4, RFC 3056
	)},
	{"not the address of a single host", prefixes("0.0.0.0/8", "255.255.255.255/32")},
}

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, 0, len(texts))
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

func contains(prefixes []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// Control refuses an address. It is a net.Dialer's ControlContext, called after resolution and before connecting.
func (a Addresses) Control(_ context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("dialing %q, which is no IP address: %w", address, err)
	}
	return a.check(at)
}

func (a Addresses) check(at netip.AddrPort) error {
	ip := at.Addr().Unmap().WithZone("")
	if nat64.Contains(ip) {
		b := ip.As16()
		ip = netip.AddrFrom4([4]byte(b[12:]))
	}
	if contains(a.Refused, ip) {
		return &RefusedError{ip, "reserved by the controller's configuration"}
	}
	if a.RefusedPorts != nil && slices.Contains(a.RefusedPorts(), netip.AddrPortFrom(ip, at.Port())) {
		return &RefusedError{ip, fmt.Sprintf("the API server's (at port %d)", at.Port())}
	}
	if contains(a.Allowed, ip) {
		return nil
	}
	switch {
	case ip.IsLoopback(), ip.IsUnspecified():
		return &RefusedError{ip, "the controller's own (loopback)"}
	case ip.IsLinkLocalUnicast():
		return &RefusedError{ip, "link-local"}
	case ip.IsMulticast():
		return &RefusedError{ip, "multicast"}
	}
	for _, r := range reserved {
		if contains(r.prefixes, ip) {
			return &RefusedError{ip, r.why}
		}
	}
	return nil
}
