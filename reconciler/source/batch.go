// SPDX-License-Identifier: Apache-2.0

package source

import (
	"sync"
	"time"
)

// batchEvery is the least time between two passes over Services. A source can change
// several times a second, and each pass costs time for each Service.
const batchEvery = 3 * time.Second

// everywhere stands for all namespaces.
const everywhere = ""

// batch collects the namespaces whose Services are to be requeued. Its zero value does not wait between passes.
type batch struct {
	every time.Duration

	mu      sync.Mutex
	in      map[string]bool
	last    time.Time
	waiting bool
}

// add calls run with a namespace: at once, or together with all others that are added
// until the next pass.
func (b *batch) add(namespace string, run func(in map[string]bool)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.in == nil {
		b.in = map[string]bool{}
	}
	b.in[namespace] = true
	if b.waiting {
		return
	}
	pass := func() {
		in := b.in
		b.in, b.last, b.waiting = nil, time.Now(), false
		run(in)
	}
	wait := b.every - time.Since(b.last)
	if wait <= 0 {
		pass()
		return
	}
	b.waiting = true
	time.AfterFunc(wait, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		pass()
	})
}
