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

// perSource bounds the clients that one source holds: its sink, its dead letter
// sink, and those that it had before its last change.
const perSource = 4

// Target is an address to send to, on behalf of one source.
type Target struct {
	// URL of the sink, with everything that belongs to it.
	URL string
	// CACerts are certificate authorities in PEM, trusted besides the system's.
	CACerts string
	// Source on whose behalf it is sent. Two sources never share a client.
	Source types.UID
	// Show says what the source shows there; without it, nothing is sent.
	Show credentials.Want
}

// String names the target by scheme and host. The rest of a webhook's URL is
// often its password: userinfo, query, and with some receivers the path too.
func (t Target) String() string {
	u, err := url.Parse(t.URL)
	if err != nil || u.Host == "" {
		return "a sink without a valid URI"
	}
	return u.Scheme + "://" + u.Host
}

// Credentials finds what is shown to sinks.
type Credentials interface {
	For(ctx context.Context, w credentials.Want, sink *url.URL) (credentials.Shown, error)
	Rejected(w credentials.Want, shown credentials.Shown)
}

// Clients holds for each target the connections and what it trusts. The zero value is not ready for
// use; see NewClients.
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

// identity is what a connection proves and trusts, besides its target. Where it
// has changed, connections that were made before are not used again.
type identity struct {
	certificate [sha256.Size]byte
	trust       int64
}

// NewClients makes an empty pool that refuses what addresses says.
func NewClients(addresses Addresses, with Credentials) *Clients {
	return &Clients{
		addresses: addresses, credentials: with, bundles: newBundles(), now: time.Now, bySource: map[types.UID][]*pooled{},
		pings: http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
}

// Trust has the authorities in a ConfigMap trusted by the connections to all
// sinks, from the next one on. One that cannot be read is an error, and what was
// in it before stays trusted.
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

// Distrust takes back what a ConfigMap had trusted.
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

// Forget drops the clients of a source that is gone. An attempt that is under
// way is not disturbed.
func (c *Clients) Forget(source types.UID) {
	c.mu.Lock()
	gone := c.bySource[source]
	delete(c.bySource, source)
	c.mu.Unlock()
	for _, p := range gone {
		p.transport.CloseIdleConnections()
	}
}

// transport returns the one for the target, made at first use; the most recently
// used stand first.
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

// abandon has the next attempt open a connection of its own. Over HTTP/2 all
// attempts share one, and would time out on it together once its path is gone.
// Those that are under way on it may still be answered.
func (c *Clients) abandon(source types.UID, transport *http.Transport) {
	c.mu.Lock()
	c.bySource[source] = slices.DeleteFunc(c.bySource[source], func(p *pooled) bool { return p.transport == transport })
	if len(c.bySource[source]) == 0 {
		delete(c.bySource, source)
	}
	c.mu.Unlock()
	transport.CloseIdleConnections()
}
