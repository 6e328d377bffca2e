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
	// AllowLocal is for tests, whose sinks listen on loopback.
	AllowLocal bool
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
		return fmt.Errorf("host %q is not among the hosts that events may be sent to; an operator adds it to sink-hosts in ConfigMap config-cdevents, or the sink is another one", host)
	}
	return nil
}

// RefusedError says that a sink has an address that no source may send to.
type RefusedError struct {
	Address netip.Addr
	Reason  string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("address %s is %s, and no source may send there; name a sink that has an address of its own", e.Address, e.Reason)
}

var (
	// nat64 wraps an IPv4 address in its last four bytes (RFC 6052).
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
	// metadata is the one metadata service that is not link-local.
	metadata = netip.MustParsePrefix("fd00:ec2::254/128")
)

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
	for _, p := range a.Refused {
		if p.Contains(ip) {
			return &RefusedError{ip, "reserved by the controller's configuration"}
		}
	}
	if a.RefusedPorts != nil && slices.Contains(a.RefusedPorts(), netip.AddrPortFrom(ip, at.Port())) {
		return &RefusedError{ip, fmt.Sprintf("the API server's (at port %d)", at.Port())}
	}
	if a.AllowLocal {
		return nil
	}
	switch {
	case ip.IsLoopback(), ip.IsUnspecified():
		return &RefusedError{ip, "the controller's own (loopback)"}
	case ip.IsLinkLocalUnicast():
		return &RefusedError{ip, "link-local"}
	case ip.IsMulticast():
		return &RefusedError{ip, "multicast"}
	case metadata.Contains(ip):
		return &RefusedError{ip, "a cloud provider's metadata service"}
	}
	return nil
}
