package main

import (
	"sync"
	"time"
)

// againEvery is how long a look at Services again waits for the one before. A source can be
// edited several times a second, and each look costs time for each Service.
const againEvery = 3 * time.Second

// everywhere stands for all namespaces.
const everywhere = ""

// again gathers the namespaces whose Services are to be looked at again. Its zero value
// has each of them looked at at once.
type again struct {
	every time.Duration

	mu      sync.Mutex
	in      map[string]bool
	last    time.Time
	waiting bool
}

// want has look called with a namespace: at once, or with all others that were wanted
// until it is time.
func (a *again) want(namespace string, look func(in map[string]bool)) {
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
		look(in)
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
