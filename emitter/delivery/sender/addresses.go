package sender

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"github.com/knative-cdevents/knative-cdevents/emitter/delivery/hosts"
)

// Addresses says where no source may send to. Whoever may write a source makes
// the controller open connections, from a place in the network that he himself
// may not be in; so the zero value refuses what only the node can reach: loopback
// and link-local addresses, where cloud providers keep their credentials.
//
// It judges the address that a name was resolved to, at the moment of dialing,
// so that a name that resolves to something else the second time gains nothing.
// Behind an HTTP proxy that is the proxy's own address.
type Addresses struct {
	// Allowed holds prefixes that sources may send to although they are refused by
	// default, such as that of a sink on the same node. Refused and RefusedPorts win.
	Allowed []netip.Prefix
	// Refused holds further prefixes, such as that of the API server.
	Refused []netip.Prefix
	// RefusedPorts are single ports of addresses, asked for at each connection:
	// those behind the API server's address, where others may listen as well.
	// nil for none.
	RefusedPorts func() []netip.AddrPort
	// Hosts that a sink's name must be among, asked for at each attempt; nil, or
	// an empty list, for any host.
	Hosts func() hosts.List
}

// permit says whether the operator lets sources send to a host.
func (a Addresses) permit(host string) error {
	if a.Hosts == nil {
		return nil
	}
	if list := a.Hosts(); !list.Empty() && !list.Allows(host) {
		return fmt.Errorf("events may not be sent to host %q; ask an operator to add it to sink-hosts in ConfigMap config-cdevents, or use another sink", host)
	}
	return nil
}

// RefusedError says that a sink has an address that no source may send to.
type RefusedError struct {
	Address netip.Addr
	Reason  string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("address %s is %s, and no source may send events there; use a sink that has its own address", e.Address, e.Reason)
}

// nat64 wraps an IPv4 address in its last four bytes (RFC 6052).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// reserved are addresses where no sink is, beside those that package netip has words for.
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
	// What a gateway makes of these is an IPv4 address that cannot be checked here.
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

// control is called for each connection, after resolution and before connecting.
func (a Addresses) control(_ context.Context, _, address string, _ syscall.RawConn) error {
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
