// SPDX-License-Identifier: Apache-2.0

package main

import (
	"sync"
	"time"
)

// againEvery is the least time between two passes over Services. A source can change
// several times a second, and each pass costs time for each Service.
const againEvery = 3 * time.Second

// everywhere stands for all namespaces.
const everywhere = ""

// again collects the namespaces whose Services need another pass. Its zero value does not
// wait between passes.
type again struct {
	every time.Duration

	mu      sync.Mutex
	in      map[string]bool
	last    time.Time
	waiting bool
}

// want calls run with a namespace: at once, or together with all others that are wanted
// until the next pass.
func (a *again) want(namespace string, run func(in map[string]bool)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.in == nil {
		a.in = map[string]bool{}
	}
	a.in[namespace] = true
	if a.waiting {
		return
	}
	pass := func() {
		in := a.in
		a.in, a.last, a.waiting = nil, time.Now(), false
		run(in)
	}
	wait := a.every - time.Since(a.last)
	if wait <= 0 {
		pass()
		return
	}
	a.waiting = true
	time.AfterFunc(wait, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		pass()
	})
}
