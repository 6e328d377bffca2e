// SPDX-License-Identifier: Apache-2.0

package http

import (
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials/clientset"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/hosts"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/trust"
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
	send := func(url, ca string, source types.UID) transport.Outcome {
		return clients.Send(t.Context(), transport.Target{URL: url, CACerts: ca, Source: source}, newEvent(t), quick())
	}

	if out := send(s.URL, ca, "right"); out.Class != transport.Acknowledged {
		t.Error(out)
	}
	out := send(s.URL, "", "none")
	if out.Class != transport.Retry {
		t.Error(out)
	}
	checkError(t, out.Err, "not trusted", "spec.sink.CACerts")

	out = send(s.URL, "not PEM", "garbage")
	if out.Class != transport.Retry {
		t.Error(out)
	}
	checkError(t, out.Err, "reading the sink's CA certificates")

	name := strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	out = send(name, ca, "name")
	if out.Class != transport.Retry {
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
	if out.Class != transport.Retry || out.Status != http.StatusBadRequest {
		t.Error(out)
	}
	checkError(t, out.Err, "use https://")

	out = local().Send(t.Context(), at(strings.Replace(plain.URL, "http", "https", 1)), newEvent(t), quick())
	if out.Class != transport.Retry {
		t.Error(out)
	}
	checkError(t, out.Err, "does not speak TLS")
}

// The CA certificates of one source must not affect another source.
func TestSourcesShareNothing(t *testing.T) {
	t.Parallel()
	s, ca := serveTLS(t)
	clients := local()
	good := transport.Target{URL: s.URL, CACerts: ca, Source: "good"}
	bad := transport.Target{URL: s.URL, Source: "bad"}
	for range 2 {
		if out := clients.Send(t.Context(), good, newEvent(t), quick()); out.Class != transport.Acknowledged {
			t.Error(out)
		}
		if out := clients.Send(t.Context(), bad, newEvent(t), quick()); out.Class != transport.Retry {
			t.Error("trusted the CA of another source:", out)
		}
	}
	a, errA := clients.connections(transport.Target{URL: s.URL, Source: "a"}, credentials.Values{})
	b, errB := clients.connections(transport.Target{URL: s.URL, Source: "b"}, credentials.Values{})
	if a == b || errA != nil || errB != nil {
		t.Error("two sources share a client", errA, errB)
	}
}

func TestClientsAreForgotten(t *testing.T) {
	t.Parallel()
	clients := local()
	first := transport.Target{URL: "http://first.example", Source: "a"}
	one, _ := clients.connections(first, credentials.Values{})
	if again, _ := clients.connections(first, credentials.Values{}); again != one {
		t.Error("the client was not kept")
	}
	for _, host := range []string{"b", "c", "d", "e", "f"} {
		if _, err := clients.connections(transport.Target{URL: "http://" + host, Source: "a"}, credentials.Values{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(clients.pool.Of("a")); n != transport.PerSource {
		t.Errorf("%d clients for one source", n)
	}
	if again, _ := clients.connections(first, credentials.Values{}); again == one {
		t.Error("the oldest client was kept")
	}
	clients.Forget("a")
	clients.Forget("never seen")
	if len(clients.pool.All()) != 0 {
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
			if out.Class != transport.Retry || out.Status != 0 {
				t.Error(out)
			}
			checkError(t, out.Err, tc.says)
		})
	}
}

// No source with a user in its URI is valid. If there is one all the same, its password stays here.
func TestUserinfoIsNotSent(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if sent := r.Header.Get("Authorization"); sent != "" || strings.Contains(r.Host+r.RequestURI, secret) {
			t.Errorf("the sink got %q at %s%s", sent, r.Host, r.RequestURI)
		}
		w.WriteHeader(http.StatusUnauthorized)
	})
	with := strings.Replace(s.URL, "http://", "http://me:"+secret+"@", 1)
	out := local().Send(t.Context(), at(with), newEvent(t), quick())
	if out.Class != transport.Unauthorized {
		t.Error(out)
	}
	checkError(t, out.Err, "401 Unauthorized")
}

func TestTruncatedResponseIsRetried(t *testing.T) {
	t.Parallel()
	s := serveConn(t, func(net.Conn) {})
	if out := local().Send(t.Context(), at(s.URL), newEvent(t), quick()); out.Class != transport.Retry || out.Err == nil {
		t.Error(out)
	}
}

func TestHostsAllowedByTheOperator(t *testing.T) {
	t.Parallel()
	var contacted atomic.Int32
	s := serve(t, func(http.ResponseWriter, *http.Request) { contacted.Add(1) })
	var allowed hosts.List
	clients := NewClients(transport.Access{
		Addresses:   transport.Addresses{Allowed: loopback, Hosts: func() hosts.List { return allowed }},
		Credentials: credentials.NewKeeper(clientset.API{Interface: fake.NewClientset()}, Schemes), Trust: trust.New(),
	})
	for _, tc := range []struct {
		allowed hosts.List
		want    transport.Class
	}{{"", transport.Acknowledged}, {"other.example", transport.Unauthorized}, {"*.example,127.0.0.1", transport.Acknowledged}, {"127.0.0.2", transport.Unauthorized}} {
		allowed = tc.allowed
		out := clients.Send(t.Context(), at(s.URL), newEvent(t), quick())
		if out.Class != tc.want {
			t.Errorf("%q: %v", allowed, out)
		}
		if tc.want == transport.Unauthorized {
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
		clients := NewClients(transport.Access{
			Addresses:   transport.Addresses{Allowed: loopback, Hosts: func() hosts.List { return list }},
			Credentials: credentials.NewKeeper(clientset.API{Interface: fake.NewClientset()}, Schemes), Trust: trust.New(),
		})
		for _, uri := range []string{"http://[::1%25.example.com]" + port, "http://bücher.example.com" + port} {
			out := clients.Send(t.Context(), at(uri), newEvent(t), quick())
			if out.Class != transport.Retry {
				t.Errorf("%q, %s: %v", list, uri, out)
			}
			checkError(t, out.Err, "the sink's URI cannot be used", "example.com")
		}
	}
}

// transport.Addresses are checked after DNS resolution.
func TestRefusedAfterResolution(t *testing.T) {
	t.Parallel()
	contacted := false
	s := serve(t, func(http.ResponseWriter, *http.Request) { contacted = true })
	port := s.URL[strings.LastIndex(s.URL, ":"):]
	for _, url := range []string{s.URL, "http://localhost" + port, "http://[::ffff:127.0.0.1]" + port, "http://0.0.0.0" + port} {
		start := time.Now()
		out := NewClients(transport.Access{Credentials: credentials.NewKeeper(clientset.API{Interface: fake.NewClientset()}, Schemes), Trust: trust.New()}).Send(t.Context(), at(url), newEvent(t), quick())
		var refused *transport.RefusedError
		if out.Class != transport.Retry || !errors.As(out.Err, &refused) || time.Since(start) > time.Second {
			t.Errorf("%s: %v", url, out)
		}
		checkError(t, out.Err, "no source may send events there")
	}
	if contacted {
		t.Error("the sink was contacted")
	}
}
