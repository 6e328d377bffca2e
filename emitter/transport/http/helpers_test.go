// SPDX-License-Identifier: Apache-2.0

package http

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials/clientset"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/trust"
)

const secret = "s3cret"

func newEvent(t *testing.T) event.Event {
	t.Helper()
	ev := event.New()
	ev.SetID("4f3c")
	ev.SetSource("https://cluster.example/1")
	ev.SetType("dev.cdevents.service.deployed.0.3.0")
	ev.SetSubject("shop/cart")
	ev.SetTime(time.Date(2026, 11, 21, 9, 0, 0, 123456000, time.UTC))
	ev.SetExtension("team", "web")
	if err := ev.SetData("application/json", map[string]string{"id": "cart"}); err != nil {
		t.Fatal(err)
	}
	return ev
}

// loopback holds the addresses of the tests' sinks.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// local returns clients that may send to loopback addresses.
func local() *Clients {
	return with(credentials.NewKeeper(clientset.API{Interface: fake.NewClientset()}, Schemes))
}

// with returns such clients that send the credentials of a keeper.
func with(keeper transport.Credentials) *Clients {
	return NewClients(transport.Access{
		Addresses: transport.Addresses{Allowed: loopback}, Credentials: keeper, Trust: trust.New(),
	})
}

func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// serveConn hands each request's connection to f, then closes it.
func serveConn(t *testing.T, f func(net.Conn)) *httptest.Server {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		f(conn)
		_ = conn.Close()
	})
}

func quick() transport.Policy {
	p := transport.DefaultPolicy()
	p.Timeout = 2 * time.Second
	return p
}

func at(url string) transport.Target { return transport.Target{URL: url, Source: "source-1"} }

// checkError asserts that an error contains the words, and no secret.
func checkError(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not contain %q", err, w)
		}
	}
	if strings.Contains(err.Error(), secret) {
		t.Errorf("error %q reveals a secret", err)
	}
}

func mustParse(t *testing.T, uri string) *url.URL {
	t.Helper()
	u, err := url.Parse(uri)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
