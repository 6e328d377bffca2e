// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials"
)

// perSource limits the clients of one source: for its sink, its dead letter sink, and those from before its last
// change.
const perSource = 4

// Clients holds the clients of each source. It is a transport.Transport. Use NewClients to make one.
type Clients struct {
	access transport.Access

	mu       sync.Mutex
	bySource map[types.UID][]*kept
}

type kept struct {
	target transport.Target
	// values and trust are what the client was made with. When they change, it is not used again.
	values credentials.Values
	trust  int64
	*client
}

var _ transport.Transport = (*Clients)(nil)

// NewClients returns an empty pool that sends only where the access allows.
func NewClients(access transport.Access) *Clients {
	return &Clients{access: access, bySource: map[types.UID][]*kept{}}
}

// Forget implements transport.Transport. It does not disturb an attempt under way.
func (c *Clients) Forget(source types.UID) {
	c.mu.Lock()
	gone := c.bySource[source]
	delete(c.bySource, source)
	c.mu.Unlock()
	for _, k := range gone {
		k.drop()
	}
}

// use returns the client for a target, and makes it at first use. The caller ends with release. The most recently
// used clients come first.
func (c *Clients) use(t transport.Target, to address, values credentials.Values) (*client, error) {
	trust := c.access.Trust.Generation()
	var gone []*kept
	defer func() {
		for _, k := range gone {
			k.drop()
		}
	}()
	c.mu.Lock()
	defer c.mu.Unlock()
	have := c.bySource[t.Source]
	if i := slices.IndexFunc(have, func(k *kept) bool { return k.target == t }); i >= 0 {
		k := have[i]
		have = slices.Delete(have, i, i+1)
		if k.trust == trust && k.values.Equal(values) {
			c.bySource[t.Source] = slices.Insert(have, 0, k)
			k.acquire()
			return k.client, nil
		}
		gone = append(gone, k)
	}
	made, err := newClient(to, t.CACerts, c.access, values)
	if err != nil {
		c.bySource[t.Source] = have
		return nil, err
	}
	if len(have) >= perSource {
		gone = append(gone, have[len(have)-1])
		have = have[:len(have)-1]
	}
	c.bySource[t.Source] = slices.Insert(have, 0, &kept{target: t, values: values, trust: trust, client: made})
	made.acquire()
	return made, nil
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
