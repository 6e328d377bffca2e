// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// The load is bounded in rate, number and time.
const (
	pace        = 25 // requests a second
	maxRequests = 5000
	maxTime     = 5 * time.Minute
	workers     = 8
)

// load sends requests to a Service and counts the responses by Revision.
type load struct {
	mu     sync.Mutex
	since  time.Time
	counts map[string]int
	errors int

	total, failed int
	lastError     error
}

// run sends requests until the context or one of the bounds ends it, and returns once all have a response.
func (l *load) run(ctx context.Context, in *kit.Ingress, service *url.URL) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	l.window()
	tick := time.NewTicker(time.Second / pace)
	defer tick.Stop()
	var all sync.WaitGroup
	defer all.Wait()
	// A slow Service slows the load down instead of piling up requests.
	free := make(chan struct{}, workers)
	for range maxRequests {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			a, err := in.Get(ctx, service)
			if ctx.Err() != nil {
				return // interrupted by the end of the load, not a failure of the Service
			}
			l.count(a, err)
		})
	}
}

func (l *load) count(a kit.Answer, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total++
	if err != nil || a.Status != http.StatusOK {
		l.errors++
		l.failed++
		if err == nil {
			err = fmt.Errorf("status %d", a.Status)
		}
		l.lastError = err
		return
	}
	l.counts[a.Revision]++
}

// window resets the measurement.
func (l *load) window() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since, l.counts, l.errors = time.Now(), map[string]int{}, 0
}

// measured is the measurement of one window.
type measured struct {
	during   time.Duration
	requests int
	errors   int
	shares   []shareOf
}

type shareOf struct {
	name  string
	share float64
}

func (l *load) measure() measured {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := measured{during: time.Since(l.since), errors: l.errors}
	answered := 0
	for _, n := range l.counts {
		answered += n
	}
	m.requests = answered + l.errors
	for name, n := range l.counts {
		m.shares = append(m.shares, shareOf{name: name, share: float64(n) / float64(answered)})
	}
	slices.SortFunc(m.shares, func(a, b shareOf) int {
		return cmp.Or(cmp.Compare(b.share, a.share), cmp.Compare(a.name, b.name))
	})
	return m
}

func (l *load) totals() (requests, failed int, lastError error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total, l.failed, l.lastError
}
