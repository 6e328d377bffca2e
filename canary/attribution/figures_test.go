package attribution

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
)

var cart = types.NamespacedName{Namespace: "shop", Name: "cart"}

// bench is a Service under test, with a clock.
type bench struct {
	*Counts
	now   time.Time
	facts Facts
}

func newBench(fresh bool, f Facts) *bench {
	b := &bench{now: time.Unix(1e9, 0), facts: f}
	b.Counts = NewCounts(func(types.NamespacedName) Facts { return b.facts }, func() time.Time { return b.now })
	b.Begin(cart, fresh)
	return b
}

func (b *bench) read(pod types.UID, entry bool, values map[mapping.Key]float64) {
	source := mapping.NeutralName
	if entry {
		source = mapping.EntryName
	}
	b.Read(cart, []scrape.Reading{{Target: scrape.Target{Pod: pod, Entry: entry}, At: b.now, Exposition: expose(source, 1e9, values)}})
}

// readBoth reads both pods of sharded at the same moment.
func (b *bench) readBoth(p1, p2 map[mapping.Key]float64) {
	b.Read(cart, []scrape.Reading{
		{Target: scrape.Target{Pod: "p1"}, At: b.now, Exposition: expose(mapping.NeutralName, 1e9, p1)},
		{Target: scrape.Target{Pod: "p2"}, At: b.now, Exposition: expose(mapping.NeutralName, 1e9, p2)},
	})
}

func (b *bench) pass(d time.Duration) { b.now = b.now.Add(d) }

func (b *bench) one(t *testing.T) Figures {
	t.Helper()
	all := b.Figures()
	if len(all) != 1 {
		t.Fatalf("%d Services", len(all))
	}
	return all[0]
}

func has(f Figures, uid types.UID, figure string, why Reason) bool {
	for _, n := range f.NoData {
		n.Detail = ""
		if n == (NoData{Revision: uid, Figure: figure, Reason: why}) {
			return true
		}
	}
	return false
}

func entry(f mapping.Figure, code string) mapping.Key { return mapping.Key{Figure: f, Outcome: code} }

// merged joins the values of several helpers into one exposition.
func merged(all ...map[mapping.Key]float64) map[mapping.Key]float64 {
	out := map[mapping.Key]float64{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

func histogram(f, sum mapping.Figure, n float64) map[mapping.Key]float64 {
	out := map[mapping.Key]float64{{Figure: sum}: n * .02, {Figure: f, Bound: math.Inf(1)}: n}
	for _, b := range Bounds() {
		if b >= .025 {
			out[mapping.Key{Figure: f, Bound: b}] = n
		} else {
			out[mapping.Key{Figure: f, Bound: b}] = 0
		}
	}
	return out
}

func ratio(f float64) *float64 { return &f }

// An ordinary Service handles requests where they enter.
func TestOrdinaryService(t *testing.T) {
	t.Parallel()
	b := newBench(true, Facts{
		Revisions: []Revision{{UID: "r1", Name: "cart-1", Configuration: "cart", Required: ratio(1)}},
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
	if r.Unaccounted != nil || r.Members != nil || f.Stateful || len(f.NoData) != 0 && !has(f, "r1", "handled_share_ratio", NoRequests) {
		t.Errorf("%+v", f)
	}
}

// gRPC failures are invisible at entry, so no outcome counts as success.
func TestHTTP2IsNotKnown(t *testing.T) {
	t.Parallel()
	b := newBench(true, Facts{Revisions: []Revision{{UID: "r1", Name: "cart-1"}}, Pods: []Pod{{UID: "p1", Revision: "r1"}}})
	b.read("p1", true, map[mapping.Key]float64{entry(mapping.EntryHTTP, mapping.Unknown): 10, entry(mapping.EntryServing, "200"): 10})
	f := b.one(t)
	r := f.Revisions[0]
	if diff := cmp.Diff(map[string]float64{mapping.Unknown: 10}, r.Handled); diff != "" {
		t.Error(diff)
	}
	if !has(f, "r1", "entry_requests_total", EntryOutcomesUnknown) || !has(f, "r1", "handled_requests_total", OutcomesUnknown) || !has(f, "r1", "traffic_share_ratio", NoSplit) {
		t.Errorf("%+v", f.NoData)
	}
}

// A sharded application with a mistyped annotation still does not handle requests where they enter.
func TestMisdeclaredIsNotHandledWhereItEntered(t *testing.T) {
	t.Parallel()
	b := newBench(true, Facts{Revisions: []Revision{{UID: "r1", Name: "cart-1", Misdeclared: true}}, Pods: []Pod{{UID: "p1", Revision: "r1"}}})
	for _, n := range []float64{1, 2} {
		b.pass(15 * time.Second)
		b.read("p1", true, merged(histogram(mapping.EntryDuration, mapping.EntryDurationSum, 10*n), map[mapping.Key]float64{entry(mapping.EntryHTTP, "200"): 10 * n}))
	}
	f := b.one(t)
	r := f.Revisions[0]
	if r.Entered["2xx"] != 20 || r.Handled != nil || r.Durations != nil || r.Share != nil {
		t.Errorf("%+v", r)
	}
	if !has(f, "r1", "handled_requests_total", Misdeclared) || !has(f, "r1", "handled_request_duration_seconds", Misdeclared) {
		t.Errorf("%+v", f.NoData)
	}
}

func TestEntryMetricsUnavailable(t *testing.T) {
	t.Parallel()
	b := newBench(true, Facts{Revisions: []Revision{{UID: "r1", Name: "cart-1"}}, Pods: []Pod{{UID: "p1", Revision: "r1", Ready: true}}})
	b.pass(15 * time.Second)
	refused := &scrape.ReadError{Class: scrape.Refused, Err: errors.New("connection refused")}
	b.Read(cart, []scrape.Reading{{Target: scrape.Target{Pod: "p1", Entry: true}, At: b.now, Err: refused}})
	f := b.one(t)
	if r := f.Revisions[0]; r.Handled != nil || r.Entered != nil || !has(f, "r1", "entry_requests_total", EntryMetricsUnavailable) || *r.ScrapeAge != 15*time.Second {
		t.Errorf("%+v", f)
	}
	if failures := b.Failures(cart); len(failures) != 1 || !errors.Is(failures[0].Err, refused) || !failures[0].Entry {
		t.Errorf("%v", failures)
	}
	if h := b.Health(); h.Scrapes[string(scrape.Refused)] != 1 || h.Targets != 1 || h.Services != 1 {
		t.Errorf("%+v", h)
	}
}

func handled(ok, failed float64) map[mapping.Key]float64 {
	return map[mapping.Key]float64{
		{Figure: mapping.Started, Entity: "Cart"}:                    ok + failed,
		{Figure: mapping.Finished, Entity: "Cart", Outcome: "ok"}:    ok,
		{Figure: mapping.Finished, Entity: "Cart", Outcome: "error"}: failed,
		{Figure: mapping.Shards, Entity: "Cart"}:                     5,
		{Figure: mapping.ShardFinished, Outcome: "ok", Shard: "7"}:   ok,
		{Figure: mapping.ShardSlow, Shard: "7"}:                      failed,
	}
}

func sharded() Facts {
	return Facts{
		Revisions: []Revision{
			{UID: "r1", Name: "cart-1", Configuration: "cart", Required: ratio(.95), Stateful: true, ClusterMembers: ratio(1)},
			{UID: "r2", Name: "cart-2", Configuration: "cart", Required: ratio(.05), Stateful: true, Timeout: time.Minute, ClusterMembers: ratio(0), ClusterShards: ratio(34)},
		},
		Pods: []Pod{
			{UID: "p1", Revision: "r1", Ready: true, Incarnation: "0"},
			{UID: "p2", Revision: "r2", Ready: true, Incarnation: "0"},
		},
	}
}

// What a serving pod handles while it cannot be read is missing from the figures.
func TestPodsThatDoNotAnswerAreCounted(t *testing.T) {
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
		t.Errorf("it answers, and %d do not", n)
	}
}

// The canary takes a third although the Route gives it a twentieth.
func TestShares(t *testing.T) {
	t.Parallel()
	b := newBench(true, sharded())
	if f := b.one(t); f.Revisions[1].Shards[AllEntities] != 34 || !has(f, "r2", "handled_requests_total", NotRead) || !has(f, "", "unaccounted_requests", CallsPerRequestUnknown) {
		t.Errorf("%+v", f.NoData)
	}
	for i := 0.0; i < 40; i++ {
		b.pass(15 * time.Second)
		// Requests before the window do not count.
		b.readBoth(handled(10*(i+1), 0), handled(5*(i+1), 30*min(i+1, 10)))
	}
	f := b.one(t)
	if got := *f.Revisions[1].Share; math.Abs(got-1.0/3) > .001 {
		t.Errorf("the share is %v", got)
	}
	r := f.Revisions[1]
	if *r.Members != 0 || *f.Revisions[0].Members != 1 || r.Shards["Cart"] != 5 || *r.Required != .05 || *r.ScrapeAge != 0 {
		t.Errorf("%+v", r)
	}
	b.pass(time.Hour)
	b.read("p1", false, handled(400, 0))
	b.pass(10 * time.Minute)
	b.read("p1", false, handled(400, 0))
	if f := b.one(t); !has(f, "r1", "handled_share_ratio", NoRequests) {
		t.Errorf("%+v", f.NoData)
	}
}

// A pod's counts outlive it; the requests it started and did not finish stay unaccounted.
func TestAPodDies(t *testing.T) {
	t.Parallel()
	b := newBench(true, sharded())
	b.read("p2", false, merged(handled(20, 1), map[mapping.Key]float64{{Figure: mapping.Started, Entity: "Cart"}: 24}))
	b.facts.Pods = b.facts.Pods[:1]
	b.read("p1", false, handled(1, 0))
	r := b.one(t).Revisions[1]
	if r.Handled["ok"] != 20 || r.Handled["error"] != 1 || *r.Unaccounted != 3 || r.Pods != 0 {
		t.Errorf("%+v", r)
	}
	c, ok := b.Snapshot(cart)
	if !ok || c.Revisions()["r2"].Shards[ShardKey{Shard: "7"}] != (Shard{OK: 20, Slow: 1}) {
		t.Errorf("%+v", c)
	}
	// The copy belongs to the judge.
	c.Revisions()["r2"].Finished["ok"] = 99
	if again, _ := b.Snapshot(cart); again.Revisions()["r2"].Finished["ok"] != 20 {
		t.Error("a copy reaches into the counts")
	}
	// A new Revision with the same name is another Revision.
	b.facts.Revisions[1].UID = "r2'"
	b.read("p1", false, handled(1, 0))
	if r := b.one(t).Revisions[1]; r.Handled["ok"] != 0 {
		t.Errorf("%+v", r)
	}
	b.End(cart)
	if len(b.Figures()) != 0 {
		t.Error("a Service that was handed over is still told of")
	}
	if _, ok := b.Snapshot(cart); ok {
		t.Error("and still counted")
	}
	if _, ok := b.Figure(cart); ok {
		t.Error("and still known")
	}
}

// Hanging requests are found under traffic, and slow ones are not mistaken for them.
func TestUnaccounted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		open func(i int) float64
		took float64 // per request
		want float64
	}{
		"nothing hangs":              {func(int) float64 { return 0 }, .01, 0},
		"three hang":                 {func(int) float64 { return 3 }, .01, 3},
		"slow ones are on their way": {func(i int) float64 { return 4 + float64(i%3) }, 7.5, 0},
		"they came and went":         {func(i int) float64 { return float64(i % 5) }, .01, 0},
	} {
		b := newBench(true, sharded())
		for i := range 30 {
			b.pass(15 * time.Second)
			n := float64(10 * (i + 1))
			b.read("p2", false, merged(handled(n, 0), map[mapping.Key]float64{
				{Figure: mapping.Started, Entity: "Cart"}: n + c.open(i), {Figure: mapping.DurationSum, Entity: "Cart"}: n * c.took,
			}))
		}
		if got := b.one(t).Revisions[1].Unaccounted; got == nil || *got != c.want {
			t.Errorf("%s: got %v", name, *got)
		}
	}
}

// Open requests are those that existing pods started and did not finish, whichever process watched
// them. They are unknown if nothing counts starts or a serving pod was not read.
func TestOpenRequests(t *testing.T) {
	t.Parallel()
	began := func(n, finished float64) map[mapping.Key]float64 {
		return merged(handled(finished, 0), map[mapping.Key]float64{{Figure: mapping.Started, Entity: "Cart"}: n})
	}
	b := newBench(false, sharded())
	if got := b.one(t).Revisions[1].Open; got != nil {
		t.Errorf("before a pod that serves was read, %v are open", *got)
	}
	b.read("p2", false, began(24, 20))
	if got := b.one(t).Revisions[1].Open; got == nil || *got != 4 {
		t.Errorf("began 24 and finished 20: %v", got)
	}
	b.read("p2", false, began(30, 30))
	if got := b.one(t).Revisions[1].Open; got == nil || *got != 0 {
		t.Errorf("all finished: %v", got)
	}
	b.read("p1", false, map[mapping.Key]float64{{Figure: mapping.Finished, Outcome: mapping.OK}: 9})
	if got := b.one(t).Revisions[0].Open; got != nil {
		t.Errorf("nobody counts what is begun, and %v are open", *got)
	}
	b.facts.Pods = b.facts.Pods[:1]
	b.read("p1", false, map[mapping.Key]float64{{Figure: mapping.Finished, Outcome: mapping.OK}: 9})
	if got := b.one(t).Revisions[1].Open; got == nil || *got != 0 {
		t.Errorf("no pod, and open are %v", got)
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

// A Service that appears while this process watches has shares from its first reading, even if nothing
// happens afterwards.
func TestSharesOfANewServiceCountFromItsBeginning(t *testing.T) {
	t.Parallel()
	for fresh, want := range map[bool]*float64{true: ratio(.75), false: nil} {
		b := newBench(fresh, sharded())
		b.pass(12 * time.Second)
		b.readBoth(handled(10, 0), handled(30, 0))
		b.pass(15 * time.Second)
		b.readBoth(handled(10, 0), handled(30, 0))
		if diff := cmp.Diff(want, b.one(t).Revisions[1].Share); diff != "" {
			t.Errorf("fresh: %v: %s", fresh, diff)
		}
	}
}

func TestNobodyHoldsThatManyShards(t *testing.T) {
	t.Parallel()
	b := newBench(true, sharded())
	b.read("p2", false, merged(handled(1, 0), map[mapping.Key]float64{
		{Figure: mapping.Shards, Entity: "Cart"}: 34, {Figure: mapping.Shards, Entity: "Lie"}: 1e300,
	}))
	f := b.one(t)
	if diff := cmp.Diff(map[string]float64{"Cart": 34}, f.Revisions[1].Shards); diff != "" || f.Rejected[RejectedValue] != 1 {
		t.Errorf("%s, rejected: %v", diff, f.Rejected)
	}
}

// Requests carry the names of known Revisions only; one that is gone keeps its name.
func TestWhereRequestsEntered(t *testing.T) {
	t.Parallel()
	b := newBench(true, sharded())
	entered := func(at string) mapping.Key { return mapping.Key{Figure: mapping.EnteredAt, Outcome: at} }
	gone, stays := b.facts.Revisions[0].Name, b.facts.Revisions[1].Name
	values := merged(handled(30, 0), map[mapping.Key]float64{entered(gone): 20, entered(stays): 4, entered("x"): 3, entered("y"): 3})
	b.read("p2", false, values)
	b.facts.Revisions = b.facts.Revisions[1:]
	b.read("p2", false, merged(values, map[mapping.Key]float64{entered(gone): 21}))
	want := map[string]float64{gone: 21, stays: 4, Other: 6}
	if diff := cmp.Diff(want, b.one(t).Revisions[0].EnteredAt); diff != "" {
		t.Error(diff)
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
	if f.Rejected[RejectedEntity] == 0 || f.Rejected[RejectedShard] < 10 || b.Health().Rejected[RejectedShard] < 10 {
		t.Errorf("%v", f.Rejected)
	}
	c, _ := b.Snapshot(cart)
	if n := len(c.Revisions()["r2"].Shards); n != maxSnapshotShards {
		t.Errorf("a snapshot has %d shards", n)
	}
	// It is stored compressed.
	var stored bytes.Buffer
	z := gzip.NewWriter(&stored)
	if err := errors.Join(json.NewEncoder(z).Encode(c), z.Close()); err != nil || stored.Len() > 64<<10 {
		t.Errorf("it takes %d bytes, %v", stored.Len(), err)
	}
}

func TestDurationsThatCannotBeCompared(t *testing.T) {
	t.Parallel()
	b := newBench(true, sharded())
	b.read("p1", false, merged(handled(2, 0), map[mapping.Key]float64{{Figure: mapping.Duration, Bound: .3}: 1, {Figure: mapping.Duration, Bound: math.Inf(1)}: 2}))
	b.read("p2", false, handled(2, 0))
	f := b.one(t)
	if f.Revisions[0].Durations != nil || !has(f, "r1", "handled_request_duration_seconds", BucketsDiffer) || !has(f, "r2", "handled_request_duration_seconds", DurationsUnknown) {
		t.Errorf("%+v", f.NoData)
	}
}

// Unknown outcomes are not zero errors: neither before the first request nor for a pod that existed
// before the watch.
func TestNoOutcomeIsNoZero(t *testing.T) {
	t.Parallel()
	for _, fresh := range []bool{true, false} {
		b := newBench(fresh, sharded())
		for range 2 {
			b.pass(15 * time.Second)
			b.readBoth(map[mapping.Key]float64{finishedKey(mapping.Unknown): 0}, map[mapping.Key]float64{finishedKey(mapping.Unknown): 500})
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
func TestWhatWasSeenIsSaid(t *testing.T) {
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
	t.Error("it is not missing")
}

// An open WebSocket is no request: it is neither handled, nor slow, nor started.
func TestConnectionsAreNoRequests(t *testing.T) {
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
