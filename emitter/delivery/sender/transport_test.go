// SPDX-License-Identifier: Apache-2.0

package sender

import (
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/knative-cdevents/knative-cdevents/emitter/delivery/credentials"
	"github.com/knative-cdevents/knative-cdevents/emitter/delivery/hosts"
)

func serveTLS(t *testing.T) (*httptest.Server, string) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Proto", r.Proto)
		w.WriteHeader(http.StatusAccepted)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return s, string(ca)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	s, ca := serveTLS(t)
	clients := local()
	send := func(url, ca string, source types.UID) Outcome {
		return clients.Send(t.Context(), Target{URL: url, CACerts: ca, Source: source}, newEvent(t), quick())
	}

	if out := send(s.URL, ca, "right"); out.Class != Acknowledged {
		t.Error(out)
	}
	out := send(s.URL, "", "none")
	if out.Class != Retry {
		t.Error(out)
	}
	checkError(t, out.Err, "not trusted", "spec.sink.CACerts")

	out = send(s.URL, "not PEM", "garbage")
	if out.Class != Retry {
		t.Error(out)
	}
	checkError(t, out.Err, "reading the sink's CA certificates")

	name := strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	out = send(name, ca, "name")
	if out.Class != Retry {
		t.Error(out)
	}
	checkError(t, out.Err, "another host name")
}

func TestSchemeMustMatchPort(t *testing.T) {
	t.Parallel()
	withTLS, _ := serveTLS(t)
	plain := serve(t, func(http.ResponseWriter, *http.Request) {})

	// Servers answer plain HTTP on a TLS port with 400. The event is still valid, so retry.
	out := local().Send(t.Context(), at(strings.Replace(withTLS.URL, "https", "http", 1)), newEvent(t), quick())
	if out.Class != Retry || out.Status != http.StatusBadRequest {
		t.Error(out)
	}
	checkError(t, out.Err, "use https://")

	out = local().Send(t.Context(), at(strings.Replace(plain.URL, "http", "https", 1)), newEvent(t), quick())
	if out.Class != Retry {
		t.Error(out)
	}
	checkError(t, out.Err, "does not speak TLS")
}

// The CA certificates of one source must not affect another source.
func TestSourcesShareNothing(t *testing.T) {
	t.Parallel()
	s, ca := serveTLS(t)
	clients := local()
	good := Target{URL: s.URL, CACerts: ca, Source: "good"}
	bad := Target{URL: s.URL, Source: "bad"}
	for range 2 {
		if out := clients.Send(t.Context(), good, newEvent(t), quick()); out.Class != Acknowledged {
			t.Error(out)
		}
		if out := clients.Send(t.Context(), bad, newEvent(t), quick()); out.Class != Retry {
			t.Error("trusted the CA of another source:", out)
		}
	}
	a, errA := clients.transport(Target{URL: s.URL, Source: "a"}, credentials.Shown{})
	b, errB := clients.transport(Target{URL: s.URL, Source: "b"}, credentials.Shown{})
	if a == b || errA != nil || errB != nil {
		t.Error("two sources share a client", errA, errB)
	}
}

func TestClientsAreForgotten(t *testing.T) {
	t.Parallel()
	clients := local()
	first := Target{URL: "http://first.example", Source: "a"}
	one, _ := clients.transport(first, credentials.Shown{})
	if again, _ := clients.transport(first, credentials.Shown{}); again != one {
		t.Error("the client was not kept")
	}
	for _, host := range []string{"b", "c", "d", "e", "f"} {
		if _, err := clients.transport(Target{URL: "http://" + host, Source: "a"}, credentials.Shown{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(clients.bySource["a"]); n != perSource {
		t.Errorf("%d clients for one source", n)
	}
	if again, _ := clients.transport(first, credentials.Shown{}); again == one {
		t.Error("the oldest client was kept")
	}
	clients.Forget("a")
	clients.Forget("never seen")
	if len(clients.bySource) != 0 {
		t.Error("clients are left after Forget")
	}
}

func TestUnreachableSinks(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, url, says string
	}{
		{"connection refused", "http://user:" + secret + "@" + closed + "/" + secret + "?token=" + secret, "nothing listens there"},
		{"no such host", "http://no-such-host.invalid/" + secret, "no-such-host.invalid"},
		{"no host", "http:///path", "without a valid URI"},
		{"no URL", "http://[::1", "cannot be used"},
		{"other scheme", "ftp://sink.example/" + secret, "unsupported protocol scheme"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			out := local().Send(t.Context(), at(tc.url), newEvent(t), quick())
			if out.Class != Retry || out.Status != 0 {
				t.Error(out)
			}
			checkError(t, out.Err, tc.says)
		})
	}
}

func TestUserinfoIsSentAsBasicAuth(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if user, password, ok := r.BasicAuth(); !ok || user != "me" || password != secret {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	with := strings.Replace(s.URL, "http://", "http://me:"+secret+"@", 1)
	if out := local().Send(t.Context(), at(with), newEvent(t), quick()); out.Class != Acknowledged {
		t.Error(out)
	}
	out := local().Send(t.Context(), at(strings.Replace(with, "me:", "you:", 1)), newEvent(t), quick())
	if out.Class != Unauthorized {
		t.Error(out)
	}
	checkError(t, out.Err, "401 Unauthorized")
}

func TestTruncatedResponseIsRetried(t *testing.T) {
	t.Parallel()
	s := serveConn(t, func(net.Conn) {})
	if out := local().Send(t.Context(), at(s.URL), newEvent(t), quick()); out.Class != Retry || out.Err == nil {
		t.Error(out)
	}
}

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
	if err := addresses.control(t.Context(), "tcp", "no address", nil); err == nil {
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

func TestHostsAllowedByTheOperator(t *testing.T) {
	t.Parallel()
	var contacted atomic.Int32
	s := serve(t, func(http.ResponseWriter, *http.Request) { contacted.Add(1) })
	var allowed hosts.List
	clients := NewClients(Addresses{Allowed: loopback, Hosts: func() hosts.List { return allowed }}, credentials.NewKeeper(fake.NewClientset()))
	for _, tc := range []struct {
		allowed hosts.List
		want    Class
	}{{"", Acknowledged}, {"other.example", Unauthorized}, {"*.example,127.0.0.1", Acknowledged}, {"127.0.0.2", Unauthorized}} {
		allowed = tc.allowed
		out := clients.Send(t.Context(), at(s.URL), newEvent(t), quick())
		if out.Class != tc.want {
			t.Errorf("%q: %v", allowed, out)
		}
		if tc.want == Unauthorized {
			checkError(t, out.Err, "127.0.0.1", "sink-hosts", "config-cdevents")
		}
	}
	if n := contacted.Load(); n != 2 {
		t.Errorf("the sink received %d requests, want 2", n)
	}
}

// A host must be dialled as it is written, with and without a list.
func TestHostsThatAreDialledAsAnother(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "[::1]:0")
	if err != nil {
		t.Skip("there is no IPv6 here:", err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the sink was contacted") }))
	s.Listener = listener
	s.Start()
	t.Cleanup(s.Close)
	_, port, _ := strings.Cut(s.URL, "]")
	for _, list := range []hosts.List{"", "*.example.com"} {
		clients := NewClients(Addresses{Allowed: loopback, Hosts: func() hosts.List { return list }}, credentials.NewKeeper(fake.NewClientset()))
		for _, uri := range []string{"http://[::1%25.example.com]" + port, "http://bücher.example.com" + port} {
			out := clients.Send(t.Context(), at(uri), newEvent(t), quick())
			if out.Class != Retry {
				t.Errorf("%q, %s: %v", list, uri, out)
			}
			checkError(t, out.Err, "the sink's URI cannot be used", "example.com")
		}
	}
}

// Addresses are checked after DNS resolution.
func TestRefusedAfterResolution(t *testing.T) {
	t.Parallel()
	contacted := false
	s := serve(t, func(http.ResponseWriter, *http.Request) { contacted = true })
	port := s.URL[strings.LastIndex(s.URL, ":"):]
	for _, url := range []string{s.URL, "http://localhost" + port, "http://[::ffff:127.0.0.1]" + port, "http://0.0.0.0" + port} {
		start := time.Now()
		out := NewClients(Addresses{}, credentials.NewKeeper(fake.NewClientset())).Send(t.Context(), at(url), newEvent(t), quick())
		var refused *RefusedError
		if out.Class != Retry || !errors.As(out.Err, &refused) || time.Since(start) > time.Second {
			t.Errorf("%s: %v", url, out)
		}
		checkError(t, out.Err, "no source may send events there")
	}
	if contacted {
		t.Error("the sink was contacted")
	}
}
