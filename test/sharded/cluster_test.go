// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	provider "github.com/asynkron/protoactor-go/cluster/clusterproviders/test"
	dto "github.com/prometheus/client_model/go"
)

// node is one member with its front, like a pod, in this process.
type node struct {
	*member
	counts *counts
	front  *httptest.Server
}

func startNode(t *testing.T, agent *provider.InMemAgent, conf config) *node {
	t.Helper()
	n := &node{counts: newCounts(conf)}
	n.member = anyMember(t, conf, n.counts, provider.NewTestProvider(agent))
	n.start()
	n.front = httptest.NewServer(newFront(conf, n.member))
	t.Cleanup(func() { n.front.Close(); n.leave(context.Background()) })
	return n
}

func anyMember(t *testing.T, conf config, counts *counts, p *provider.Provider) *member {
	t.Helper()
	m, err := newMember(t.Context(), conf, counts, p, "127.0.0.1", 0)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func testConfig(revision string, n int) config {
	return config{
		Self: identity{Revision: revision, Pod: fmt.Sprintf("%s-pod-%d", revision, n)}, Cluster: "test",
		Shards: 100, Patience: 2 * time.Second, ReportEntry: true, Fates: fates{SlowFor: 510 * time.Millisecond},
	}
}

func (n *node) get(t *testing.T, cart, request string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.front.URL+"/cart/"+cart, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Request-Id", request)
	resp, err := n.front.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // decoded below
	var a answer
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{ok: 200, failed: 500, timedOut: 504}[a.Outcome]
	if resp.StatusCode != want || a.Cart != cart || a.Request != request || a.Entered != n.conf.Self {
		t.Fatalf("status %d for %+v", resp.StatusCode, a)
	}
	return a
}

// value sums the series of a family that have the labels.
func (n *node) value(t *testing.T, family string, labels ...string) float64 {
	t.Helper()
	families, err := n.counts.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == family && carries(m, labels) {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

func carries(m *dto.Metric, labels []string) bool {
	has := map[string]string{}
	for _, l := range m.GetLabel() {
		has[l.GetName()] = l.GetValue()
	}
	for i := 0; i < len(labels); i += 2 {
		if has[labels[i]] != labels[i+1] {
			return false
		}
	}
	return true
}

// together waits until every node lists all nodes as members.
func together(t *testing.T, nodes ...*node) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		agreed := true
		for _, n := range nodes {
			agreed = agreed && len(n.view().Members) == len(nodes)
		}
		if agreed {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d nodes did not form a cluster: %v", len(nodes), nodes[0].view())
		}
	}
}

func TestMetricsMatchTheAnswers(t *testing.T) {
	t.Parallel()
	agent := provider.NewInMemAgent()
	bad := testConfig("cart-00002", 0)
	bad.Fates.FailRate = 0.05
	nodes := []*node{
		startNode(t, agent, testConfig("cart-00001", 0)),
		startNode(t, agent, testConfig("cart-00001", 1)),
		startNode(t, agent, bad),
	}
	together(t, nodes...)

	const requests = 1000
	handled, outcomes, byShard, entered := map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	for i := range requests {
		// One request in 20 enters at the canary.
		entry := nodes[i%2]
		if i%20 == 0 {
			entry = nodes[2]
		}
		a := entry.get(t, fmt.Sprintf("cart-%d", i%300), fmt.Sprintf("r-%d", i))
		if a.Handled == nil {
			t.Fatalf("no member answered: %+v", a)
		}
		handled[a.Handled.Pod]++
		outcomes[a.Handled.Pod+" "+a.Outcome]++
		byShard[a.Handled.Pod+" "+strconv.Itoa(a.Shard)+" "+a.Outcome]++
		entered[a.Handled.Pod+" "+a.Entered.Revision]++
		if a.Outcome == failed && a.Handled.Revision != "cart-00002" {
			t.Errorf("%s failed a request, but its failure rate is 0", a.Handled.Revision)
		}
	}

	shards, answered := 0.0, 0.0
	for _, n := range nodes {
		answered += n.value(t, "stateful_asks_total", "outcome", "answered") + n.value(t, "stateful_asks_total", "outcome", "answered_after_retry")
		pod := n.conf.Self.Pod
		equal := func(what string, got float64, want int) {
			t.Helper()
			if int(got) != want {
				t.Errorf("%s: %s is %v, the answers say %d", pod, what, got, want)
			}
		}
		if handled[pod] < requests/20 {
			t.Errorf("%s handled %d of %d requests, so they are hardly sharded", pod, handled[pod], requests)
		}
		equal("started", n.value(t, "stateful_requests_started_total", "entity_type", "Cart"), handled[pod])
		equal("durations", n.value(t, "stateful_request_duration_seconds"), handled[pod])
		for _, outcome := range []string{ok, failed, timedOut} {
			equal(outcome, n.value(t, "stateful_requests_total", "outcome", outcome), outcomes[pod+" "+outcome])
			for s := range 100 {
				number := strconv.Itoa(s)
				equal("shard "+number, n.value(t, "stateful_shard_requests_total", "shard", number, "outcome", outcome),
					byShard[pod+" "+number+" "+outcome])
			}
		}
		for _, revision := range []string{"cart-00001", "cart-00002"} {
			equal("entered at "+revision, n.value(t, "stateful_requests_total", "entry_revision", revision), entered[pod+" "+revision])
		}
		shards += n.value(t, "stateful_shards")
		t.Logf("%s handled %4d, %2.0f failed, %2.0f shards", pod, handled[pod],
			n.value(t, "stateful_requests_total", "outcome", failed), n.value(t, "stateful_shards"))
	}
	if answered != requests {
		t.Errorf("%v of %d requests are counted as answered", answered, requests)
	}
	// With 300 carts, no shard stays empty.
	if shards != 100 {
		t.Errorf("%v active shards, want 100, each on one member", shards)
	}
	if n := outcomes["cart-00002-pod-0 error"]; n == 0 {
		t.Error("the canary has a failure rate of 5 %, but no request failed")
	}
}

// When a member leaves, the library cuts its connections at once. The request in flight at that moment fails with
// that outcome. All others are repeated at the shard's new place.
func TestShardsMoveWhenAMemberLeaves(t *testing.T) {
	t.Parallel()
	agent := provider.NewInMemAgent()
	stays, leaves := startNode(t, agent, testConfig("cart-00001", 0)), startNode(t, agent, testConfig("cart-00001", 1))
	together(t, stays, leaves)
	for i := range 200 {
		stays.get(t, fmt.Sprintf("cart-%d", i), fmt.Sprintf("before-%d", i))
	}
	left := make(chan struct{})
	go func() { defer close(left); leaves.leave(context.Background()) }()
	cut := 0
	for i := 0; ; i++ {
		if a := stays.get(t, fmt.Sprintf("cart-%d", i%200), fmt.Sprintf("during-%d", i)); a.Outcome != ok {
			if cut++; cut > 1 || a.Outcome != timedOut {
				t.Errorf("request %d while a member leaves: %+v", i, a)
			}
		}
		select {
		case <-left:
		default:
			continue
		}
		break
	}
	together(t, stays)
	before := stays.value(t, "stateful_requests_total")
	for i := range 200 {
		stays.get(t, fmt.Sprintf("cart-%d", i), fmt.Sprintf("after-%d", i))
	}
	if got := stays.value(t, "stateful_requests_total") - before; got != 200 {
		t.Errorf("the remaining member handled %v of 200", got)
	}
}

func TestSlowAndHangingRequests(t *testing.T) {
	t.Parallel()
	conf := testConfig("cart-00001", 0)
	conf.Fates.SlowRate = 1
	n := startNode(t, provider.NewInMemAgent(), conf)
	if a := n.get(t, "a", "slow"); a.Outcome != ok || n.value(t, "stateful_shard_slow_requests_total") != 1 {
		t.Errorf("a slow request: %+v, %v counted as slow", a, n.value(t, "stateful_shard_slow_requests_total"))
	}

	conf.Fates.HangRate = 1
	n = startNode(t, provider.NewInMemAgent(), conf)
	if a := n.get(t, "a", "hangs"); a.Outcome != timedOut || a.Handled != nil {
		t.Errorf("a request that hangs: %+v", a)
	}
	if started, ended := n.value(t, "stateful_requests_started_total"), n.value(t, "stateful_requests_total"); started != 1 || ended != 0 {
		t.Errorf("a request that hangs: %v started and %v finished", started, ended)
	}
	if given := n.value(t, "stateful_asks_total", "outcome", "given_up"); given != 1 {
		t.Errorf("a request that hangs is counted as given up %v times", given)
	}
}
