package sender

import (
	"net/http"
	"net/url"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
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

// Clients holds for each target the connections and what it trusts. The zero value is not ready for
// use; see NewClients.
type Clients struct {
	addresses Addresses
	now       func() time.Time

	mu       sync.Mutex
	bySource map[types.UID][]*pooled
}

type pooled struct {
	target    Target
	transport *http.Transport
}

// NewClients makes an empty pool that refuses what addresses says.
func NewClients(addresses Addresses) *Clients {
	return &Clients{addresses: addresses, now: time.Now, bySource: map[types.UID][]*pooled{}}
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
func (c *Clients) transport(t Target) (*http.Transport, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	have := c.bySource[t.Source]
	for i, p := range have {
		if p.target == t {
			copy(have[1:i+1], have[:i])
			have[0] = p
			return p.transport, nil
		}
	}
	transport, err := newTransport(t.CACerts, c.addresses)
	if err != nil {
		return nil, err
	}
	if len(have) >= perSource {
		have[len(have)-1].transport.CloseIdleConnections()
		have = have[:len(have)-1]
	}
	c.bySource[t.Source] = append([]*pooled{{target: t, transport: transport}}, have...)
	return transport, nil
}
