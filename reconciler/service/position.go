// SPDX-License-Identifier: Apache-2.0

package service

import (
	"sync"
	"time"
)

// arrives is how long objects that an informer has read may take to reach its cache and its
// handlers: microseconds, or more if the process gets no CPU.
const arrives = 200 * time.Millisecond

// position is the version that an informer had read a moment ago, so its cache is at least as
// new. Bookmarks advance it when nothing happens. The resource versions of a list, of a
// bookmark and of the objects of one resource are comparable (KEP-5504).
type position struct {
	read func() string
	now  func() time.Time

	mu         sync.Mutex
	known, new string
	since      time.Time
}

func newPosition(read func() string) *position {
	p := &position{read: read, now: time.Now, new: read()}
	p.known, p.since = p.new, p.now()
	return p
}

func (p *position) get() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.now(); now.Sub(p.since) >= arrives {
		p.known = p.new
		p.new, p.since = p.read(), now
	}
	return p.known
}
