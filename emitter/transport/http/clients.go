// SPDX-License-Identifier: Apache-2.0

package http

import (
	"crypto/sha256"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials"
)

// Clients holds the connections to each target. Use NewClients to make one.
type Clients struct {
	access transport.Access
	now    func() time.Time
	pings  http.HTTP2Config
	pool   *transport.Pool[*connections]
}

// connections are those to one target, and what they were made with.
type connections struct {
	*http.Transport
	made identity
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
		access: access, now: time.Now,
		pings: http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		// It does not disturb an attempt under way.
		pool: transport.NewPool(func(c *connections) { c.CloseIdleConnections() }),
	}
	access.Trust.OnChange(c.closeIdle)
	return c
}

func (c *Clients) closeIdle() {
	for _, one := range c.pool.All() {
		one.CloseIdleConnections()
	}
}

// Forget implements transport.Transport.
func (c *Clients) Forget(source types.UID) { c.pool.Forget(source) }

// connections returns those to a target, and makes them at first use.
func (c *Clients) connections(t transport.Target, values credentials.Values) (*connections, error) {
	want := identity{certificate: values.CertificateID(), trust: c.access.Trust.Generation()}
	return c.pool.Get(t, func(has *connections) bool { return has.made == want }, func() (*connections, error) {
		made, err := newConnections(t.CACerts, c.access, values.Certificate(), c.pings)
		if err != nil {
			return nil, err
		}
		return &connections{Transport: made, made: want}, nil
	})
}

// abandon makes the next attempt open a new connection. Over HTTP/2 all attempts share one,
// and would time out together on a broken one. Attempts under way may still be answered.
func (c *Clients) abandon(source types.UID, broken *connections) { c.pool.Remove(source, broken) }
