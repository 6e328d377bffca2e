// SPDX-License-Identifier: Apache-2.0

package http

import (
	"crypto/sha256"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials"
)

// perSource limits the clients of one source: for its sink, its dead letter sink, and those
// from before its last change.
const perSource = 4

// Clients holds the connections to each target. Use NewClients to make one.
type Clients struct {
	access transport.Access
	now    func() time.Time
	pings  http.HTTP2Config

	mu       sync.Mutex
	bySource map[types.UID][]*pooled
}

type pooled struct {
	target      transport.Target
	made        identity
	connections *http.Transport
}

// identity is the client certificate of a connection, and the generation of the trusted
// bundles. When it changes, older connections are not used again.
type identity struct {
	certificate [sha256.Size]byte
	trust       int64
}

// NewClients returns an empty pool that sends only where the access allows.
func NewClients(access transport.Access) *Clients {
	c := &Clients{
		access: access, now: time.Now, bySource: map[types.UID][]*pooled{},
		pings: http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
	access.Trust.OnChange(c.closeIdle)
	return c
}

func (c *Clients) closeIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, all := range c.bySource {
		for _, p := range all {
			p.connections.CloseIdleConnections()
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
		p.connections.CloseIdleConnections()
	}
}

// connections returns those to a target, and makes them at first use. It keeps the most recently used ones first.
func (c *Clients) connections(t transport.Target, values credentials.Values) (*http.Transport, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	want := identity{certificate: values.CertificateID(), trust: c.access.Trust.Generation()}
	have := c.bySource[t.Source]
	if i := slices.IndexFunc(have, func(p *pooled) bool { return p.target == t }); i >= 0 {
		p := have[i]
		have = slices.Delete(have, i, i+1)
		if p.made == want {
			c.bySource[t.Source] = slices.Insert(have, 0, p)
			return p.connections, nil
		}
		p.connections.CloseIdleConnections()
	}
	connections, err := newConnections(t.CACerts, c.access, values.Certificate(), c.pings)
	if err != nil {
		c.bySource[t.Source] = have
		return nil, err
	}
	if len(have) >= perSource {
		have[len(have)-1].connections.CloseIdleConnections()
		have = have[:len(have)-1]
	}
	c.bySource[t.Source] = slices.Insert(have, 0, &pooled{target: t, made: want, connections: connections})
	return connections, nil
}

// abandon makes the next attempt open a new connection. Over HTTP/2 all attempts share one,
// and would time out together on a broken one. Attempts under way may still be answered.
func (c *Clients) abandon(source types.UID, broken *http.Transport) {
	c.mu.Lock()
	c.bySource[source] = slices.DeleteFunc(c.bySource[source], func(p *pooled) bool { return p.connections == broken })
	if len(c.bySource[source]) == 0 {
		delete(c.bySource, source)
	}
	c.mu.Unlock()
	broken.CloseIdleConnections()
}
