// SPDX-License-Identifier: Apache-2.0

package sender

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/emitter/delivery/credentials"
)

// perSource limits the clients of one source: for its sink, its dead letter sink, and those
// from before its last change.
const perSource = 4

// Credentials finds the credentials that sinks are shown.
type Credentials interface {
	For(ctx context.Context, w credentials.Want, sink *url.URL) (credentials.Shown, error)
	Rejected(w credentials.Want, shown credentials.Shown)
}

// Clients holds the connections to each target. Use NewClients to make one.
type Clients struct {
	addresses   Addresses
	credentials Credentials
	bundles     *bundles
	now         func() time.Time
	pings       http.HTTP2Config

	mu       sync.Mutex
	bySource map[types.UID][]*pooled
}

type pooled struct {
	target    Target
	made      identity
	transport *http.Transport
}

// identity is the client certificate of a connection, and the generation of the trusted
// bundles. When it changes, older connections are not used again.
type identity struct {
	certificate [sha256.Size]byte
	trust       int64
}

// NewClients returns an empty pool that sends only where addresses allows.
func NewClients(addresses Addresses, with Credentials) *Clients {
	return &Clients{
		addresses: addresses, credentials: with, bundles: newBundles(), now: time.Now, bySource: map[types.UID][]*pooled{},
		pings: http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
}

// Trust adds the authorities in a ConfigMap to those that new connections trust. If it is
// invalid, its previous content stays trusted.
func (c *Clients) Trust(bundle *corev1.ConfigMap) error {
	changed, err := c.bundles.add(bundle)
	if err != nil {
		return fmt.Errorf("reading the trust bundle in ConfigMap %s/%s: %w", bundle.Namespace, bundle.Name, err)
	}
	if changed {
		c.closeIdle()
	}
	return nil
}

// Distrust removes the authorities of a ConfigMap.
func (c *Clients) Distrust(bundle *corev1.ConfigMap) {
	c.bundles.remove(bundle)
	c.closeIdle()
}

func (c *Clients) closeIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, all := range c.bySource {
		for _, p := range all {
			p.transport.CloseIdleConnections()
		}
	}
}

// Forget drops the clients of a source. It does not disturb an attempt under way.
func (c *Clients) Forget(source types.UID) {
	c.mu.Lock()
	gone := c.bySource[source]
	delete(c.bySource, source)
	c.mu.Unlock()
	for _, p := range gone {
		p.transport.CloseIdleConnections()
	}
}

// transport returns the transport for a target, and makes it at first use. It keeps the most
// recently used ones first.
func (c *Clients) transport(t Target, shown credentials.Shown) (*http.Transport, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	want := identity{certificate: shown.CertificateID(), trust: c.bundles.generation()}
	have := c.bySource[t.Source]
	if i := slices.IndexFunc(have, func(p *pooled) bool { return p.target == t }); i >= 0 {
		p := have[i]
		have = slices.Delete(have, i, i+1)
		if p.made == want {
			c.bySource[t.Source] = slices.Insert(have, 0, p)
			return p.transport, nil
		}
		p.transport.CloseIdleConnections()
	}
	transport, err := newTransport(t.CACerts, c.bundles, shown.Certificate(), c.addresses, c.pings)
	if err != nil {
		c.bySource[t.Source] = have
		return nil, err
	}
	if len(have) >= perSource {
		have[len(have)-1].transport.CloseIdleConnections()
		have = have[:len(have)-1]
	}
	c.bySource[t.Source] = slices.Insert(have, 0, &pooled{target: t, made: want, transport: transport})
	return transport, nil
}

// abandon makes the next attempt open a new connection. Over HTTP/2 all attempts share one,
// and would time out together on a broken one. Attempts under way may still be answered.
func (c *Clients) abandon(source types.UID, transport *http.Transport) {
	c.mu.Lock()
	c.bySource[source] = slices.DeleteFunc(c.bySource[source], func(p *pooled) bool { return p.transport == transport })
	if len(c.bySource[source]) == 0 {
		delete(c.bySource, source)
	}
	c.mu.Unlock()
	transport.CloseIdleConnections()
}
