// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// PerSource limits the clients of one source: for its sink, its dead letter sink, and those from before its last
// change.
const PerSource = 4

// Pool holds the clients of each source, by target. Sources share none. Use NewPool to make one; it is safe for
// concurrent use.
type Pool[C comparable] struct {
	drop func(C)

	mu sync.Mutex
	// bySource holds the most recently used clients first.
	bySource map[types.UID][]pooled[C]
}

type pooled[C comparable] struct {
	target Target
	client C
}

// NewPool returns an empty pool. It calls drop for each client that it no longer holds; attempts may still use that
// client.
func NewPool[C comparable](drop func(C)) *Pool[C] {
	return &Pool[C]{drop: drop, bySource: map[types.UID][]pooled[C]{}}
}

// Get returns the client for a target. If there is none, or it does not fit any more, create makes one. No client is
// dropped while fits or create run.
func (p *Pool[C]) Get(t Target, fits func(C) bool, create func() (C, error)) (C, error) {
	var gone []C
	defer func() {
		for _, c := range gone {
			p.drop(c)
		}
	}()
	p.mu.Lock()
	defer p.mu.Unlock()
	have := p.bySource[t.Source]
	if i := slices.IndexFunc(have, func(one pooled[C]) bool { return one.target == t }); i >= 0 {
		one := have[i]
		have = slices.Delete(have, i, i+1)
		if fits(one.client) {
			p.bySource[t.Source] = slices.Insert(have, 0, one)
			return one.client, nil
		}
		gone = append(gone, one.client)
	}
	made, err := create()
	if err != nil {
		p.set(t.Source, have)
		return made, err
	}
	if len(have) >= PerSource {
		gone = append(gone, have[len(have)-1].client)
		have = have[:len(have)-1]
	}
	p.set(t.Source, slices.Insert(have, 0, pooled[C]{t, made}))
	return made, nil
}

func (p *Pool[C]) set(source types.UID, all []pooled[C]) {
	if len(all) == 0 {
		delete(p.bySource, source)
		return
	}
	p.bySource[source] = all
}

// Remove drops one client of a source, so that the next Get makes another one.
func (p *Pool[C]) Remove(source types.UID, client C) {
	p.mu.Lock()
	p.set(source, slices.DeleteFunc(p.bySource[source], func(one pooled[C]) bool { return one.client == client }))
	p.mu.Unlock()
	p.drop(client)
}

// Forget drops the clients of a source. It may be called more than once.
func (p *Pool[C]) Forget(source types.UID) {
	p.mu.Lock()
	gone := clients(p.bySource[source])
	delete(p.bySource, source)
	p.mu.Unlock()
	for _, c := range gone {
		p.drop(c)
	}
}

// Of returns the clients of a source, the most recently used first.
func (p *Pool[C]) Of(source types.UID) []C {
	p.mu.Lock()
	defer p.mu.Unlock()
	return clients(p.bySource[source])
}

// All returns all clients, in no order.
func (p *Pool[C]) All() []C {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []C
	for _, of := range p.bySource {
		out = append(out, clients(of)...)
	}
	return out
}

func clients[C comparable](all []pooled[C]) []C {
	out := make([]C, len(all))
	for i, one := range all {
		out[i] = one.client
	}
	return out
}
