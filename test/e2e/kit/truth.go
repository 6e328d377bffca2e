// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf16"

	"golang.org/x/sync/errgroup"
)

// Outcomes counts requests by "ok", "error" and "timeout".
type Outcomes map[string]int

// All returns the number of requests, whatever their outcome.
func (o Outcomes) All() int {
	sum := 0
	for _, n := range o {
		sum += n
	}
	return sum
}

// Truth holds counts of requests: from the answers that clients got, or from the pods' own counters. Both have this
// form, so that they can be compared.
type Truth struct {
	// Entered and Handled count by Revision. The handler of a request that timed out is unknown: "".
	Entered, Handled map[string]Outcomes
	// Pods counts by handling pod.
	Pods map[string]Outcomes
	// Shards counts by handling Revision and shard.
	Shards map[string]map[string]Outcomes
	// Matrix counts by entry Revision, then by handling Revision.
	Matrix map[string]map[string]int
	// Lost counts requests that got no answer from the application, by the response that they got instead. Whether they
	// were handled is unknown.
	Lost map[string]int
}

func newTruth() *Truth {
	return &Truth{
		Entered: map[string]Outcomes{}, Handled: map[string]Outcomes{}, Pods: map[string]Outcomes{},
		Shards: map[string]map[string]Outcomes{}, Matrix: map[string]map[string]int{}, Lost: map[string]int{},
	}
}

// Sent returns the number of requests.
func (t *Truth) Sent() int {
	sum := 0
	for _, o := range t.Entered {
		sum += o.All()
	}
	for _, n := range t.Lost {
		sum += n
	}
	return sum
}

// String returns a table for people.
func (t *Truth) String() string {
	var b strings.Builder
	row := func(what, who string, o Outcomes) {
		if n := o.All(); n > 0 {
			fmt.Fprintf(&b, "%-8s %-28s %6d  ok %6d  error %5d (%5.2f %%)  timeout %4d\n",
				what, who, n, o["ok"], o["error"], 100*float64(o["error"])/float64(n), o["timeout"])
		}
	}
	for _, table := range []struct {
		what string
		rows map[string]Outcomes
	}{{"entered", t.Entered}, {"handled", t.Handled}, {"pod", t.Pods}} {
		for _, who := range slices.Sorted(maps.Keys(table.rows)) {
			row(table.what, who, table.rows[who])
		}
	}
	for _, entry := range slices.Sorted(maps.Keys(t.Matrix)) {
		fmt.Fprintf(&b, "entered at %s, handled by %v\n", entry, t.Matrix[entry])
	}
	for _, revision := range slices.Sorted(maps.Keys(t.Shards)) {
		fmt.Fprintf(&b, "%s handled for %d shards\n", revision, len(t.Shards[revision]))
	}
	if len(t.Lost) > 0 {
		fmt.Fprintf(&b, "lost     %v\n", t.Lost)
	}
	return b.String()
}

// CartAnswer is the application's answer to a request.
type CartAnswer struct {
	Request string
	Shard   json.Number
	Entered struct{ Revision, Pod string }
	Outcome string
	Handled struct{ Revision, Pod string }
}

func (t *Truth) add(a CartAnswer) {
	count(t.Entered, a.Entered.Revision, a.Outcome, 1)
	count(t.Handled, a.Handled.Revision, a.Outcome, 1)
	count(t.Pods, a.Handled.Pod, a.Outcome, 1)
	if t.Shards[a.Handled.Revision] == nil {
		t.Shards[a.Handled.Revision] = map[string]Outcomes{}
	}
	count(t.Shards[a.Handled.Revision], a.Shard.String(), a.Outcome, 1)
	if t.Matrix[a.Entered.Revision] == nil {
		t.Matrix[a.Entered.Revision] = map[string]int{}
	}
	t.Matrix[a.Entered.Revision][a.Handled.Revision]++
}

// count adds no zeros, so that a missing key equals a zero.
func count(in map[string]Outcomes, key, outcome string, n int) {
	if n == 0 {
		return
	}
	if in[key] == nil {
		in[key] = Outcomes{}
	}
	in[key][outcome] += n
}

// Clients send requests to a Cart and record the answers.
type Clients struct {
	in      *Ingress
	service *url.URL
	shardOf func(cart string, shards int) int
	// Carts is the number of carts. Requests take them in turn.
	Carts int
	// Even is the number of shards over which the carts are spread evenly. At 0, they are spread by chance.
	Even int
	// Workers is the number of concurrent senders.
	Workers int

	mu    sync.Mutex
	truth *Truth
	next  int
}

// Clients returns clients of a Cart, with nothing recorded yet.
func (k Carts) Clients(ctx context.Context, c *Cart) (*Clients, error) {
	in, err := k.Services.Ingress(ctx)
	if err != nil {
		return nil, err
	}
	service, err := k.URL(ctx, c)
	if err != nil {
		return nil, err
	}
	return &Clients{in: in, service: service, shardOf: c.shardOf, Carts: 500, Workers: 4, truth: newTruth()}, nil
}

// Send sends that many requests through the ingress. Their ids are consecutive numbers, so their fates are the same in
// each run.
func (c *Clients) Send(ctx context.Context, requests int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(c.Workers)
	for range requests {
		n := c.next
		c.next++
		group.Go(func() error {
			c.one(ctx, n)
			return ctx.Err()
		})
	}
	return group.Wait()
}

// cart returns the name of a cart. Of each run of Even carts, one belongs to each shard.
func (c *Clients) cart(n int) string {
	name := fmt.Sprintf("cart-%d", n)
	for i := 1; c.Even > 0 && c.shardOf(name, c.Even) != n%c.Even; i++ {
		name = fmt.Sprintf("cart-%d-%d", n, i)
	}
	return name
}

// shardByHashCode returns the shard of an entity, as HashCodeMessageExtractor of Akka and Pekko computes it from Java's
// hash code of the id.
func shardByHashCode(id string, shards int) int {
	var hash int32
	for _, c := range utf16.Encode([]rune(id)) {
		hash = 31*hash + int32(c)
	}
	shard := int(hash) % shards
	return max(shard, -shard)
}

// Shard returns the shard of a cart, of 100.
func (c *Clients) Shard(cart string) int { return c.shardOf(cart, 100) }

// shardByFNV returns the shard of an entity as test/sharded and the sidecar compute it.
func shardByFNV(id string, shards int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))             // a hash never fails
	return int(h.Sum32() % uint32(shards)) //nolint:gosec // at most 1000
}

func (c *Clients) one(ctx context.Context, n int) {
	status, body, err := c.in.Ask(ctx, c.service.JoinPath("cart", c.cart(n%c.Carts)), fmt.Sprintf("request-%d", n))
	var a CartAnswer
	lost := ""
	switch {
	case err != nil:
		lost = err.Error()
	case json.Unmarshal(body, &a) != nil || a.Outcome == "":
		lost = fmt.Sprintf("%d %.60s", status, body)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if lost != "" {
		c.truth.Lost[lost]++
		return
	}
	c.truth.add(a)
}

// Hold sends one request that takes a while, for the nth cart, and returns its answer. It is not recorded.
func (c *Clients) Hold(ctx context.Context, n int, takes time.Duration) (CartAnswer, error) {
	var a CartAnswer
	target := c.service.JoinPath("cart", c.cart(n))
	target.RawQuery = url.Values{"for": {takes.String()}}.Encode()
	status, body, err := c.in.Ask(ctx, target, fmt.Sprintf("hold-%d", n))
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return a, fmt.Errorf("the answer is %d %.60s: %w", status, body, err)
	}
	return a, nil
}

// SendUntil sends a few requests at a time until one enters at that Revision: the ingress lags a little behind Serving.
// Requests that get 404 because the ingress does not know the Service yet reach no pod, so they are not recorded.
func (c *Clients) SendUntil(ctx context.Context, revision string) error {
	return Wait(ctx, patience, "requests that enter at "+revision, func(ctx context.Context) error {
		if err := c.Send(ctx, 20); err != nil {
			return err
		}
		got := c.Truth()
		unheard := 0
		maps.DeleteFunc(got.Lost, func(said string, n int) bool {
			is := strings.HasPrefix(said, "404 ")
			if is {
				unheard += n
			}
			return is
		})
		if got.Entered[revision].All() == 0 {
			return NotYet("none of %d requests did, and the ingress did not know the Service for %d more", got.Sent(), unheard)
		}
		return nil
	})
}

// Truth returns the recorded answers. Call it while no request is in flight.
func (c *Clients) Truth() *Truth {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.truth
}
