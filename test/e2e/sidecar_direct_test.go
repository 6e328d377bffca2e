// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// direct sends requests to the queue-proxies of pods, past the ingress, so that it is known where each enters.
type direct struct {
	client  *http.Client
	ctx     context.Context //nolint:containedctx // that of the requests
	ending  chan struct{}
	end     sync.Once
	senders sync.WaitGroup

	mu  sync.Mutex
	all []directly
}

// directly is such a request, and what came of it.
type directly struct {
	entry, cart  string
	began, ended time.Time
	status       int
	retryAfter   string
	// by is the pod that handled it, and said the rest of the answer, or why there is none.
	by, said string
}

func newDirect(ctx context.Context) *direct {
	return &direct{ctx: ctx, ending: make(chan struct{}), client: &http.Client{
		Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true},
	}}
}

// send sends requests for carts in turn, from a number of clients, until stop.
func (d *direct) send(to *corev1.Pod, carts []string, clients int) {
	name, url := to.Name, "http://"+to.Status.PodIP+":8012/cart/"
	for i := range clients {
		d.senders.Go(func() {
			for n := i; ; n += clients {
				select {
				case <-d.ending:
					return
				case <-time.After(100 * time.Millisecond):
				}
				r := directly{entry: name, cart: carts[n%len(carts)], began: time.Now()}
				d.ask(&r, url+r.cart)
				r.ended = time.Now()
				d.mu.Lock()
				d.all = append(d.all, r)
				d.mu.Unlock()
			}
		})
	}
}

func (d *direct) ask(r *directly, url string) {
	req, err := http.NewRequestWithContext(d.ctx, http.MethodGet, url, nil)
	if err != nil {
		r.said = err.Error()
		return
	}
	resp, err := d.client.Do(req)
	if err != nil {
		r.said = err.Error()
		return
	}
	defer func() { _ = resp.Body.Close() }() // it has been read
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		r.said = err.Error()
		return
	}
	r.status, r.retryAfter, r.said = resp.StatusCode, resp.Header.Get("Retry-After"), string(body)
	var a kit.CartAnswer
	if json.Unmarshal(body, &a) == nil {
		r.by = a.Handled.Pod
	}
}

// stop ends the clients after their last request.
func (d *direct) stop() {
	d.end.Do(func() { close(d.ending) })
	d.senders.Wait()
}

// so returns the requests so far.
func (d *direct) so() []directly {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.all)
}

// unavailable: it was not handled, and may be sent again.
func (r directly) unavailable() bool {
	return r.status == http.StatusServiceUnavailable && r.retryAfter != ""
}

// told describes a request for people, with the times since another one.
func (r directly) told(since time.Time) string {
	return fmt.Sprintf("%s at %s, %s to %s: %d (Retry-After %q) by %q: %.200s", r.cart, r.entry,
		r.began.Sub(since).Round(10*time.Millisecond), r.ended.Sub(since).Round(10*time.Millisecond), r.status, r.retryAfter, r.by, r.said)
}

// summary counts the answers to what began after a time, by where it entered and whose cart it was. Status 0 is no answer.
func (d *direct) summary(since time.Time, pod string, mine func(cart string) bool) string {
	counts := map[string]map[int]int{}
	for _, r := range d.so() {
		if r.began.Before(since) {
			continue
		}
		entry, of := "another pod", "another pod"
		if r.entry == pod {
			entry = "that pod"
		}
		if mine(r.cart) {
			of = "that pod"
		}
		kind := "entered at " + entry + ", of " + of
		if counts[kind] == nil {
			counts[kind] = map[int]int{}
		}
		counts[kind][r.status]++
	}
	var lines []string
	for kind, by := range counts {
		lines = append(lines, fmt.Sprintf("%-42s %v", kind, by))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
