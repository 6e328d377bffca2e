// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials"
)

// Clients holds the clients of each source. It is a transport.Transport. Use NewClients to make one.
type Clients struct {
	access transport.Access
	pool   *transport.Pool[*client]
}

var _ transport.Transport = (*Clients)(nil)

// NewClients returns an empty pool that sends only where the access allows.
func NewClients(access transport.Access) *Clients {
	return &Clients{access: access, pool: transport.NewPool((*client).drop)}
}

// Forget implements transport.Transport. It does not disturb an attempt under way.
func (c *Clients) Forget(source types.UID) { c.pool.Forget(source) }

// use returns the client for a target, and makes it at first use. The caller ends with release.
func (c *Clients) use(t transport.Target, to address, values credentials.Values) (*client, error) {
	trust := c.access.Trust.Generation()
	// A client is acquired before it can be dropped.
	fits := func(has *client) bool {
		if has.trust != trust || !has.values.Equal(values) {
			return false
		}
		has.acquire()
		return true
	}
	return c.pool.Get(t, fits, func() (*client, error) {
		made, err := newClient(to, t.CACerts, c.access, values)
		if err != nil {
			return nil, err
		}
		made.trust = trust
		made.acquire()
		return made, nil
	})
}

func (c *client) acquire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users++
}

// release ends a use.
func (c *client) release() {
	c.mu.Lock()
	c.users--
	last := c.dropped && c.users == 0
	c.mu.Unlock()
	if last {
		c.Close()
	}
}

// drop closes the client when it is not used.
func (c *client) drop() {
	c.mu.Lock()
	c.dropped = true
	unused := c.users == 0
	c.mu.Unlock()
	if unused {
		c.Close()
	}
}
