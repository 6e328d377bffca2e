// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// An ordinary Service handles requests where they enter.
func TestOrdinaryService(t *testing.T) {
	t.Parallel()
	b := newBench(true, Facts{
		Revisions: []Revision{{Revision: &lifecycle.Revision{UID: "r1", Name: "cart-1"}, Configuration: "cart", Required: ratio(1)}},
		Pods:      []Pod{{UID: "p1", Revision: "r1", Ready: true}},
	})
	for range 2 {
		b.pass(15 * time.Second)
		b.read("p1", true, merged(histogram(mapping.EntryDuration, mapping.EntryDurationSum, 20), map[mapping.Key]float64{
			entry(mapping.EntryHTTP, "101"): 9, entry(mapping.EntryHTTP, "200"): 10, entry(mapping.EntryHTTP, "404"): 2,
			entry(mapping.EntryHTTP, "500"): 3, entry(mapping.EntryHTTP, "503"): 4, entry(mapping.EntryHTTP, "504"): 1,
			// Five broke off in the middle of their answers.
			entry(mapping.EntryServing, "200"): 15, entry(mapping.EntryServing, "500"): 8,
		}))
	}
	f := b.one(t)
	r := f.Revisions[0]
	if diff := cmp.Diff(map[string]float64{"2xx": 10, "3xx": 0, "4xx": 2, "5xx": 13}, r.Entered); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]float64{"ok": 12, "error": 12, "timeout": 1}, r.Handled); diff != "" {
		t.Error(diff)
	}
	if r.Durations == nil || r.Durations.Count != 20 || r.Durations.Buckets[.01] != 0 || r.Durations.Buckets[.025] != 20 {
		t.Errorf("%+v", r.Durations)
	}
	if r.Unaccounted != nil || r.Members != nil || f.Stateful ||
		len(f.NoData) != 0 && !has(f, "r1", "handled_share_ratio", NoRequests) {
		t.Errorf("%+v", f)
	}
}

// gRPC failures are invisible at entry, so no outcome counts as success.
func TestHTTP2OutcomesAreUnknown(t *testing.T) {
	t.Parallel()
	b := newBench(true, Facts{
		Revisions: []Revision{{Revision: &lifecycle.Revision{UID: "r1", Name: "cart-1"}}},
		Pods:      []Pod{{UID: "p1", Revision: "r1"}},
	})
	b.read("p1", true, map[mapping.Key]float64{
		entry(mapping.EntryHTTP, mapping.Unknown): 10,
		entry(mapping.EntryServing, "200"):        10,
	})
	f := b.one(t)
	r := f.Revisions[0]
	if diff := cmp.Diff(map[string]float64{mapping.Unknown: 10}, r.Handled); diff != "" {
		t.Error(diff)
	}
	if !has(f, "r1", "entry_requests_total", EntryOutcomesUnknown) ||
		!has(f, "r1", "handled_requests_total", OutcomesUnknown) || !has(f, "r1", "traffic_share_ratio", NoSplit) {
		t.Errorf("%+v", f.NoData)
	}
}

// One request over HTTP/2 is not the others' fault: figures lack something only if more than a tenth does.
func TestOneUnknownOutcomeLacksNothing(t *testing.T) {
	t.Parallel()
	for unknown, lacks := range map[float64]bool{1: false, 10: false, 11: true} {
		b := newBench(true, Facts{
			Revisions: []Revision{{Revision: &lifecycle.Revision{UID: "r1", Name: "cart-1"}}},
			Pods:      []Pod{{UID: "p1", Revision: "r1"}},
		})
		b.read("p1", true, map[mapping.Key]float64{
			entry(mapping.EntryHTTP, mapping.Unknown): unknown, entry(mapping.EntryHTTP, "200"): 100 - unknown,
		})
		f := b.one(t)
		if r := f.Revisions[0]; r.Handled[mapping.Unknown] != unknown || r.Entered[mapping.Unknown] != unknown {
			t.Errorf("%v of 100: %v, %v", unknown, r.Handled, r.Entered)
		}
		if has(f, "r1", "entry_requests_total", EntryOutcomesUnknown) != lacks ||
			has(f, "r1", "handled_requests_total", OutcomesUnknown) != lacks {
			t.Errorf("%v of 100: %+v", unknown, f.NoData)
		}
	}
}

// A sharded application with a mistyped annotation still does not handle requests where they enter.
func TestMisdeclaredRevisionHasNoHandledRequests(t *testing.T) {
	t.Parallel()
	b := newBench(true, Facts{
		Revisions: []Revision{{Revision: &lifecycle.Revision{UID: "r1", Name: "cart-1", Misdeclared: "pekka"}}},
		Pods:      []Pod{{UID: "p1", Revision: "r1"}},
	})
	for _, n := range []float64{1, 2} {
		b.pass(15 * time.Second)
		b.read("p1", true, merged(histogram(mapping.EntryDuration, mapping.EntryDurationSum, 10*n),
			map[mapping.Key]float64{entry(mapping.EntryHTTP, "200"): 10 * n}))
	}
	f := b.one(t)
	r := f.Revisions[0]
	if r.Entered["2xx"] != 20 || r.Handled != nil || r.Durations != nil || r.Share != nil {
		t.Errorf("%+v", r)
	}
	if !has(f, "r1", "handled_requests_total", InvalidAnnotations) ||
		!has(f, "r1", "handled_request_duration_seconds", InvalidAnnotations) {
		t.Errorf("%+v", f.NoData)
	}
}

func TestEntryMetricsUnavailable(t *testing.T) {
	t.Parallel()
	b := newBench(true, Facts{
		Revisions: []Revision{{Revision: &lifecycle.Revision{UID: "r1", Name: "cart-1"}}},
		Pods:      []Pod{{UID: "p1", Revision: "r1", Ready: true}},
	})
	b.pass(15 * time.Second)
	refused := &scrape.ReadError{Class: scrape.Refused, Err: errors.New("connection refused")}
	b.Read(cart, []scrape.Reading{{Target: scrape.Target{Pod: "p1", Entry: true}, At: b.now, Err: refused}})
	f := b.one(t)
	if r := f.Revisions[0]; r.Handled != nil || r.Entered != nil ||
		!has(f, "r1", "entry_requests_total", EntryMetricsUnavailable) || *r.ScrapeAge != 15*time.Second {
		t.Errorf("%+v", f)
	}
	if failures := b.Failures(cart); len(failures) != 1 || !errors.Is(failures[0].Err, refused) || !failures[0].Entry {
		t.Errorf("%v", failures)
	}
	if h := b.Health(); h.Scrapes[string(scrape.Refused)] != 1 || h.Targets != 1 || h.Services != 1 {
		t.Errorf("%+v", h)
	}
}

// What a serving pod handles while it cannot be read is missing from the figures.
func TestUnansweringPodsAreCounted(t *testing.T) {
	t.Parallel()
	f := sharded()
	f.Pods = append(f.Pods, Pod{UID: "p3", Revision: "r2", Ready: true}, Pod{UID: "p4", Revision: "r2"})
	b := newBench(true, f)
	refuse := func() {
		b.readBoth(handled(10, 0), handled(20, 0))
		for _, uid := range []types.UID{"p3", "p4"} {
			b.Read(cart, []scrape.Reading{{Target: scrape.Target{Pod: uid}, At: b.now, Err: errors.New("refused")}})
		}
	}
	for i, want := range []int{0, 1, 1} {
		refuse()
		if is := b.one(t).Revisions; is[1].Unanswering != want || is[0].Unanswering != 0 {
			t.Errorf("after %d readings: %d, and %d of the baseline", i+1, is[1].Unanswering, is[0].Unanswering)
		}
	}
	b.read("p3", false, handled(1, 0))
	if n := b.one(t).Revisions[1].Unanswering; n != 0 {
		t.Errorf("the pod answers again, but %d pods are unanswering", n)
	}
}

func TestRestarts(t *testing.T) {
	t.Parallel()
	f := sharded()
	f.Pods[1].Restarts = 4 // before this process watched
	b := newBench(false, f)
	pods := append([]Pod(nil), f.Pods...)
	b.facts.Pods = pods
	pods[1].Restarts, pods[1].OOMKilled = 6, true
	b.Read(cart, nil)
	pods[1].Restarts, pods[1].OOMKilled, pods[1].Failed = 7, false, true
	b.Read(cart, nil)
	b.Read(cart, nil)
	want := map[string]float64{RestartedOOM: 2, RestartedOther: 1, RestartedFailed: 1}
	if diff := cmp.Diff(want, b.one(t).Revisions[1].Restarts); diff != "" {
		t.Error(diff)
	}
}

func TestImpossibleShardCountIsRejected(t *testing.T) {
	t.Parallel()
	b := newBench(true, sharded())
	b.read("p2", false, merged(handled(1, 0), map[mapping.Key]float64{
		{Figure: mapping.Shards, Entity: "Cart"}: 34, {Figure: mapping.Shards, Entity: "Lie"}: 1e300,
	}))
	f := b.one(t)
	if diff := cmp.Diff(map[string]float64{"Cart": 34}, f.Revisions[1].Shards); diff != "" ||
		b.Health().Rejected[RejectedValue] != 1 {
		t.Errorf("%s, rejected: %v", diff, b.Health().Rejected)
	}
}

func TestDifferentBucketsHaveNoDurations(t *testing.T) {
	t.Parallel()
	b := newBench(true, sharded())
	b.read("p1", false, merged(handled(2, 0),
		map[mapping.Key]float64{{Figure: mapping.Duration, Bound: .3}: 1, {Figure: mapping.Duration, Bound: math.Inf(1)}: 2}))
	b.read("p2", false, handled(2, 0))
	f := b.one(t)
	if f.Revisions[0].Durations != nil || !has(f, "r1", "handled_request_duration_seconds", BucketsDiffer) ||
		!has(f, "r2", "handled_request_duration_seconds", DurationsUnknown) {
		t.Errorf("%+v", f.NoData)
	}
}

// Unknown outcomes are not zero errors: neither before the first request nor for a pod that existed
// before the watch.
func TestMissingOutcomeIsNotZero(t *testing.T) {
	t.Parallel()
	for _, fresh := range []bool{true, false} {
		b := newBench(fresh, sharded())
		for range 2 {
			b.pass(15 * time.Second)
			b.readBoth(map[mapping.Key]float64{finishedKey(mapping.Unknown): 0},
				map[mapping.Key]float64{finishedKey(mapping.Unknown): 500})
		}
		f := b.one(t)
		for i, r := range f.Revisions {
			if _, told := r.Handled[mapping.Error]; told || !has(f, r.UID, "handled_requests_total", OutcomesUnknown) {
				t.Errorf("fresh %v, Revision %d: %v, %v", fresh, i, r.Handled, f.NoData)
			}
		}
	}
}

// The detail says what was seen instead of an outcome.
func TestUnknownOutcomesHaveHints(t *testing.T) {
	t.Parallel()
	b := newBench(true, sharded())
	e := expose(mapping.NeutralName, 1e9, map[mapping.Key]float64{finishedKey(mapping.Unknown): 7})
	e.Hints = []string{"a", "b"}
	b.Read(cart, []scrape.Reading{{Target: scrape.Target{Pod: "p1"}, At: b.now, Exposition: e}})
	for _, n := range b.one(t).NoData {
		if n.Reason == OutcomesUnknown {
			if n.Detail != "a; b" {
				t.Errorf("%+v", n)
			}
			return
		}
	}
	t.Error("no NoData with reason OutcomesUnknown")
}

// An open WebSocket is no request: it is neither handled, nor slow, nor started.
func TestConnectionsAreNotRequests(t *testing.T) {
	t.Parallel()
	e, err := scrape.Parse([]byte(`http_server_request_duration_seconds_bucket{http_response_status_code="101",le="0.5"} 0
http_server_request_duration_seconds_bucket{http_response_status_code="101",le="+Inf"} 9
http_server_request_duration_seconds_count{http_response_status_code="101"} 9
http_server_request_duration_seconds_bucket{http_response_status_code="200",le="0.5"} 5
http_server_request_duration_seconds_bucket{http_response_status_code="200",le="+Inf"} 5
http_server_request_duration_seconds_count{http_response_status_code="200"} 5
kn_serving_invocation_duration_seconds_count{http_response_status_code="101"} 9
kn_serving_invocation_duration_seconds_count{http_response_status_code="200"} 5
`), "", mapping.Entry(), 100)
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(true, sharded())
	b.Read(cart, []scrape.Reading{{Target: scrape.Target{Pod: "p1", Entry: true}, At: b.now, Exposition: e}})
	tally := b.services[cart].tallies["r1"]
	if tally.EntryBuckets[math.Inf(1)] != 5 || tally.Forwarded != 5 || sum(tally.Handled(false)) != 5 {
		t.Errorf("%+v", tally)
	}
}

func TestFlood(t *testing.T) {
	t.Parallel()
	b := newBench(true, sharded())
	values := map[mapping.Key]float64{}
	for i := range 100 {
		values[mapping.Key{Figure: mapping.Finished, Entity: fmt.Sprint("E", i), Outcome: "ok"}] = 1
		values[mapping.Key{Figure: mapping.Shards, Entity: fmt.Sprint("E", i)}] = 1
	}
	for i := range maxShards + 10 {
		values[mapping.Key{Figure: mapping.ShardFinished, Entity: "E0", Shard: fmt.Sprint(i), Outcome: "ok"}] = 1
	}
	b.read("p2", false, values)
	f := b.one(t)
	r := f.Revisions[1]
	if r.Handled["ok"] != 100 || len(r.Shards) != maxEntities+1 || r.Shards[Other] != 100-maxEntities {
		t.Errorf("%v, %v", r.Handled, r.Shards)
	}
	if rejected := b.Health().Rejected; rejected[RejectedEntity] == 0 || rejected[RejectedShard] < 10 {
		t.Errorf("%v", rejected)
	}
	c, _ := b.Snapshot(cart)
	if n := len(c.Revisions()["r2"].Shards); n != maxSnapshotShards {
		t.Errorf("a snapshot has %d shards", n)
	}
	// It is stored compressed.
	var stored bytes.Buffer
	z := gzip.NewWriter(&stored)
	if err := errors.Join(json.NewEncoder(z).Encode(c), z.Close()); err != nil || stored.Len() > 64<<10 {
		t.Errorf("the stored snapshot has %d bytes, %v", stored.Len(), err)
	}
}
