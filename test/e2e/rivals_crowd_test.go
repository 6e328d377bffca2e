// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// crowd sends requests at a steady rate, however long the answers take, and gives one up after ten seconds.
type crowd struct {
	in      *kit.Ingress
	service *url.URL
	sharded bool
	leave   func()

	mu sync.Mutex
	// first is when a Revision first answered, and answers how often, by status. Who did not answer is "".
	first   map[string]time.Time
	answers map[string]map[int]int
	// outage is when all requests begin to need something that is away; zero if they do not.
	outage time.Time
	// outages says that there will be one.
	outages bool
}

const (
	// usualRate is how many requests a second come. Two cores answer a few releases at a time with it, and no more.
	usualRate = 20
	// outageAfter and outageFor are when an outage begins, and how long it takes.
	outageAfter, outageFor = 30 * time.Second, 30 * time.Second
	// visited is how many carts there are.
	visited = 500
)

// crowd sends requests to a Service until leave is called.
func (s *scene) crowd(r contested, service string) *crowd {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	in, err := suite.Services.Ingress(ctx)
	s.must(err)
	svc, err := suite.Services.Wait(ctx, s.ns, service, "")
	s.must(err)
	c := &crowd{
		in: in, service: svc.Status.URL.URL(), sharded: r.sharded, outages: r.outage,
		first: map[string]time.Time{}, answers: map[string]map[int]int{},
	}
	var all sync.WaitGroup
	c.leave = func() { cancel(); all.Wait() }
	all.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(cmp.Or(r.rate, usualRate)))
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				all.Go(func() { c.send(ctx, n) })
			}
		}
	})
	return c
}

func (c *crowd) send(ctx context.Context, n int) {
	target := c.service
	switch c.mu.Lock(); {
	case c.sharded:
		target = target.JoinPath("cart", fmt.Sprintf("cart-%d", n%visited))
	case !c.outage.IsZero() && time.Since(c.outage) > 0 && time.Since(c.outage) < outageFor:
		target = target.JoinPath("depends")
	}
	c.mu.Unlock()
	status, body, err := c.in.Ask(ctx, target, fmt.Sprintf("request-%d", n))
	if ctx.Err() != nil {
		return // it has left
	}
	var said struct {
		Revision string
		Entered  struct{ Revision string }
	}
	if err == nil && status != http.StatusServiceUnavailable {
		_ = json.Unmarshal(body, &said) // the ingress may have answered
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	revision := cmp.Or(said.Revision, said.Entered.Revision)
	if c.first[revision].IsZero() {
		c.first[revision], c.answers[revision] = time.Now(), map[int]int{}
	}
	c.answers[revision][status]++
}

// firstOf is when a Revision first answered; zero if it did not.
func (c *crowd) firstOf(revision string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.first[revision]
}

// suffer lets the outage begin a while after a time, if there is to be one.
func (c *crowd) suffer(after time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.outages {
		c.outage = after.Add(outageAfter)
	}
}

// unanswered is the part of the requests that nothing answered, neither a Revision nor the ingress for one.
func (c *crowd) unanswered() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, none := 0, 0
	for _, answers := range c.answers {
		for status, n := range answers {
			if all += n; status == 0 {
				none += n
			}
		}
	}
	return float64(none) / float64(max(all, 1))
}

// String counts the answers by Revision and status.
func (c *crowd) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprint(c.answers)
}
