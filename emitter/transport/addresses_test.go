// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"errors"
	"net/netip"
	"testing"
)

func TestRefusedAddresses(t *testing.T) {
	t.Parallel()
	addresses := Addresses{Refused: []netip.Prefix{netip.MustParsePrefix("10.96.0.1/32")}}
	for _, ip := range []string{
		"127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::", "169.254.169.254",
		"::ffff:169.254.169.254", "fe80::1", "fe80::1%eth0", "224.0.0.1", "ff02::1", "fd00:ec2::254",
		"64:ff9b::a9fe:a9fe", "64:ff9b::7f00:1", "10.96.0.1", "::ffff:10.96.0.1",
		// Metadata and platform services that are not link-local.
		"100.100.100.200", "::ffff:100.100.100.200", "64:ff9b::6464:64c8", "168.63.129.16", "192.0.0.192",
		"fd00:ec2::23", "fd20:ce::254", "fd00:42::42",
		// IPv6 addresses that contain an IPv4 address.
		"64:ff9b:1::a9fe:a9fe", "64:ff9b:1:a9fe:a9:fe00::", "2002:a9fe:a9fe::1", "2001:0:a9fe:a9fe::", "::169.254.169.254", "::10.96.0.1", "::ffff:0:169.254.169.254",
		"0.1.2.3", "255.255.255.255",
	} {
		var refused *RefusedError
		if err := addresses.check(netip.AddrPortFrom(netip.MustParseAddr(ip), 443)); !errors.As(err, &refused) {
			t.Errorf("%s is allowed", ip)
		}
	}
	for _, ip := range []string{
		"10.96.0.2", "10.1.2.3", "192.168.0.1", "203.0.113.7", "2001:db8::1", "fd00::1", "64:ff9b::a01:203",
		"100.100.100.201", "100.64.0.1", "168.63.129.17", "192.0.0.191", "2003::1", "2001:1::1", "fd00:42::43", "fd20:ce::253",
	} {
		if err := addresses.check(netip.AddrPortFrom(netip.MustParseAddr(ip), 443)); err != nil {
			t.Errorf("%s: %v", ip, err)
		}
	}
	if err := addresses.Control(t.Context(), "tcp", "no address", nil); err == nil {
		t.Error("an invalid address is allowed")
	}
}

func TestAllowedAddresses(t *testing.T) {
	t.Parallel()
	addresses := Addresses{
		Allowed: prefixes("127.0.0.0/8", "169.254.20.0/24"), Refused: prefixes("127.0.0.2/32"),
		RefusedPorts: func() []netip.AddrPort { return []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:6443")} },
	}
	for at, allowed := range map[string]bool{
		"127.0.0.1:80": true, "[::ffff:127.0.0.1]:80": true, "169.254.20.10:80": true,
		"169.254.169.254:80": false, "[::1]:80": false, "127.0.0.2:80": false, "127.0.0.1:6443": false,
	} {
		if err := addresses.check(netip.MustParseAddrPort(at)); (err == nil) != allowed {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// Only the API server's port is refused, because its address is a node's, where sinks may listen.
func TestRefusedPorts(t *testing.T) {
	t.Parallel()
	ports := []netip.AddrPort{netip.MustParseAddrPort("172.30.0.1:6443"), netip.MustParseAddrPort("[2001:db8::1]:6443")}
	addresses := Addresses{RefusedPorts: func() []netip.AddrPort { return ports }}
	for at, refused := range map[string]bool{
		"172.30.0.1:6443": true, "[::ffff:172.30.0.1]:6443": true, "[64:ff9b::ac1e:1]:6443": true, "[2001:db8::1]:6443": true,
		"172.30.0.1:80": false, "172.30.0.2:6443": false, "[2001:db8::1]:80": false,
	} {
		if err := addresses.check(netip.MustParseAddrPort(at)); (err != nil) != refused {
			t.Errorf("%s: %v", at, err)
		}
	}
	// RefusedPorts is called each time.
	ports = ports[1:]
	if err := addresses.check(netip.MustParseAddrPort("172.30.0.1:6443")); err != nil {
		t.Error(err)
	}
}
