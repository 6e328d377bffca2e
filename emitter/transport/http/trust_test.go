// SPDX-License-Identifier: Apache-2.0

package http

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/eventing/pkg/eventingtls"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/trust"
	"github.com/knative-cdevents/knative-cdevents/test/certs"
)

// changing is a TLS server whose certificate can be replaced while it runs.
type changing struct {
	*httptest.Server
	certificate atomic.Pointer[tls.Certificate]
	opened      atomic.Int32
	closed      atomic.Int32
}

func newChanging(t *testing.T, first certs.Pair, change ...func(*tls.Config)) *changing {
	t.Helper()
	c := &changing{}
	c.present(first)
	c.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	c.TLS = &tls.Config{MinVersion: tls.VersionTLS13}
	for _, f := range change {
		f(c.TLS)
	}
	base := c.TLS.Clone()
	c.TLS.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		config := base.Clone()
		config.Certificates = []tls.Certificate{*c.certificate.Load()}
		return config, nil
	}
	c.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			c.opened.Add(1)
		case http.StateClosed:
			c.closed.Add(1)
		case http.StateActive, http.StateIdle, http.StateHijacked:
		}
	}
	c.StartTLS()
	t.Cleanup(c.Close)
	return c
}

func (c *changing) present(p certs.Pair) { c.certificate.Store(&p.TLS) }

func bundle(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "knative-cdevents", Name: name, Labels: map[string]string{
			eventingtls.TrustBundleLabelKey: eventingtls.TrustBundleLabelValue,
		}},
		Data: data,
	}
}

// authorities are those that clients trust.
func authorities(t *testing.T, c *Clients) *trust.Trust {
	t.Helper()
	out, ok := c.access.Trust.(*trust.Trust)
	if !ok {
		t.Fatalf("the clients trust %T", c.access.Trust)
	}
	return out
}

func TestTrustBundlesAreReloaded(t *testing.T) {
	t.Parallel()
	before, after := certs.NewAuthority(t), certs.NewAuthority(t)
	s := newChanging(t, before.Issue("sink", time.Hour))
	clients := local()
	send := func(want transport.Class) {
		t.Helper()
		if out := clients.Send(t.Context(), at(s.URL), newEvent(t), quick()); out.Class != want {
			t.Errorf("got %v, want %v", out, want)
		}
	}
	trusts := func(data map[string]string) error { return authorities(t, clients).Add(bundle("authorities", data)) }

	send(transport.Retry)
	if err := trusts(map[string]string{"ca.crt": before.PEM}); err != nil {
		t.Fatal(err)
	}
	send(transport.Acknowledged)
	send(transport.Acknowledged)
	if n := s.opened.Load(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}

	// An unchanged bundle keeps the connections.
	if err := trusts(map[string]string{"ca.crt": before.PEM}); err != nil {
		t.Fatal(err)
	}
	send(transport.Acknowledged)
	if n := s.opened.Load(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}

	// Connections that were opened with the old bundle are closed.
	s.present(after.Issue("sink", time.Hour))
	if err := trusts(map[string]string{"ca.crt": after.PEM}); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if s.closed.Load() == 2 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if opened, closed := s.opened.Load(), s.closed.Load(); opened != 2 || closed != 2 {
		t.Errorf("%d connections were opened and %d closed", opened, closed)
	}
	send(transport.Acknowledged)

	// An invalid bundle changes nothing.
	for name, data := range map[string]map[string]string{
		"empty":       nil,
		"not PEM":     {"ca.crt": "not PEM"},
		"truncated":   {"ca.crt": after.PEM + before.PEM[:len(before.PEM)/2]},
		"not DER":     {"ca.crt": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"},
		"half broken": {"a.crt": after.PEM, "b.crt": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"},
	} {
		err := trusts(data)
		if err == nil || !strings.Contains(err.Error(), "knative-cdevents/authorities") {
			t.Errorf("%s: %v", name, err)
		}
	}
	send(transport.Acknowledged)
	if n := s.opened.Load(); n != 3 {
		t.Errorf("%d connections, want 3", n)
	}

	authorities(t, clients).Remove(bundle("authorities", nil))
	send(transport.Retry)
}

func TestTrustBundlesAddToTheSourcesCAs(t *testing.T) {
	t.Parallel()
	ours, theirs := certs.NewAuthority(t), certs.NewAuthority(t)
	byBundle, bySource := newChanging(t, ours.Issue("a", time.Hour)), newChanging(t, theirs.Issue("b", time.Hour))
	clients := local()
	b := bundle("one", nil)
	// trust-manager may add a Java keystore to the same ConfigMap.
	b.BinaryData = map[string][]byte{"ca.crt": []byte(ours.PEM), "ca.jks": {0xfe, 0xed, 0xfe, 0xed}}
	if err := authorities(t, clients).Add(b); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*changing{byBundle, bySource} {
		out := clients.Send(t.Context(), transport.Target{URL: s.URL, CACerts: theirs.PEM, Source: "both"}, newEvent(t), quick())
		if out.Class != transport.Acknowledged {
			t.Error(out)
		}
	}
	if out := clients.Send(t.Context(), at(bySource.URL), newEvent(t), quick()); out.Class != transport.Retry {
		t.Error("trusted the CA of another source:", out)
	}
	// Several bundles are trusted together.
	if err := authorities(t, clients).Add(bundle("two", map[string]string{"ca.crt": theirs.PEM})); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*changing{byBundle, bySource} {
		if out := clients.Send(t.Context(), at(s.URL), newEvent(t), quick()); out.Class != transport.Acknowledged {
			t.Error(out)
		}
	}
}
