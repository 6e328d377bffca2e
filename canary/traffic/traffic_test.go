// SPDX-License-Identifier: Apache-2.0

package traffic_test

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/canary/traffic"
)

// window has some requests on both sides, with durations in all buckets.
func window(random *rand.Rand, i int, long time.Duration, sharded bool) traffic.Window {
	side := func(most int) traffic.Side {
		s := traffic.Side{Entry: traffic.Counts{
			Requests: float64(random.IntN(most)), Errors: float64(random.IntN(most / 10)), ClientErrors: float64(random.IntN(most / 10)),
			Seconds: float64(random.IntN(most*100)) / 1000,
		}}
		for range 15 {
			s.Entry.Buckets = append(s.Entry.Buckets, float64(random.IntN(most)))
		}
		if sharded {
			h := s.Entry
			h.Buckets = append([]float64{}, h.Buckets...)
			s.Handled = &h
		}
		return s
	}
	return traffic.Window{From: time.Duration(i) * long, To: time.Duration(i+1) * long, Canary: side(10_000), Baseline: side(90_000)}
}

func sum(r *traffic.Record) (requests, above float64) {
	for _, w := range r.Windows {
		requests += w.Canary.Entry.Requests + w.Baseline.Entry.Requests
		above += w.Canary.Entry.Buckets[14]
	}
	return requests, above
}

// However long a run is, its record has few windows, loses no request, and fits.
func TestBounds(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 119, 120, 121, 500, 40_320} {
		random := rand.New(rand.NewPCG(1, 2))
		r := &traffic.Record{Start: time.Unix(1.8e9, 0).UTC(), Sharded: true, Bounds: attribution.Bounds()}
		requests, above := 0.0, 0.0
		for i := range n {
			w := window(random, i, 15*time.Second, true)
			requests += w.Canary.Entry.Requests + w.Baseline.Entry.Requests
			above += w.Canary.Entry.Buckets[14]
			r.Add(w)
		}
		raw, err := r.Pack()
		if err != nil {
			t.Fatal(err)
		}
		again, err := traffic.Unpack(raw)
		if err != nil {
			t.Fatal(err)
		}
		for _, of := range []*traffic.Record{r, again} {
			if got, up := sum(of); got != requests || up != above || len(of.Windows) > traffic.MostWindows || of.End() != time.Duration(n)*15*time.Second {
				t.Errorf("%d windows: %v of %v requests in %d windows until %s", n, got, requests, len(of.Windows), of.End())
			}
		}
		if len(raw) > traffic.MostBytes {
			t.Errorf("%d windows take %d bytes", n, len(raw))
		}
		t.Logf("%d windows: %d kept, %d stored in %d bytes", n, len(r.Windows), len(again.Windows), len(raw))
	}
}

// The record of a run of 30 min, at 100 requests a second. The documentation says how large it is.
func TestSize(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	r := &traffic.Record{Start: time.Unix(1.8e9, 0), Bounds: attribution.Bounds()}
	for i := range traffic.MostWindows {
		w := traffic.Window{From: time.Duration(i) * 15 * time.Second, To: time.Duration(i+1) * 15 * time.Second}
		for side, n := range map[*traffic.Side]int{&w.Canary: 150, &w.Baseline: 1350} {
			buckets := map[float64]float64{math.Inf(1): 0}
			for _, b := range attribution.Bounds() {
				buckets[b] = 0
			}
			for range n + random.IntN(n/10) {
				took := random.ExpFloat64() * .05
				side.Entry.Requests++
				side.Entry.Seconds += math.Round(took*1000) / 1000
				if random.IntN(100) == 0 {
					side.Entry.Errors++
				}
				for b := range buckets {
					if took <= b {
						buckets[b]++
					}
				}
			}
			_, side.Entry.Buckets = traffic.Buckets(buckets)
		}
		r.Add(w)
	}
	raw, err := r.Pack()
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) < 4<<10 || len(raw) > 9<<10 {
		t.Errorf("%d bytes; the documentation says 4 to 9 KiB", len(raw))
	}
	t.Logf("%d bytes", len(raw))
}

func TestBuckets(t *testing.T) {
	t.Parallel()
	bounds, counts := traffic.Buckets(map[float64]float64{.1: 5, .5: 4, 1: 9, math.Inf(1): 9})
	if !reflect.DeepEqual(bounds, []float64{.1, .5, 1}) || !reflect.DeepEqual(counts, []float64{5, 0, 4}) {
		t.Errorf("%v %v", bounds, counts)
	}
	if bounds, counts = traffic.Buckets(map[float64]float64{.1: 5}); bounds != nil || counts != nil {
		t.Errorf("without the last bucket: %v %v", bounds, counts)
	}
}

// What is not known stays so in a sum.
func TestUnknown(t *testing.T) {
	t.Parallel()
	r := &traffic.Record{Width: time.Minute}
	timed, untimed := traffic.Counts{Requests: 2, Buckets: []float64{1, 1}}, traffic.Counts{Requests: 3}
	r.Add(traffic.Window{To: time.Second, Canary: traffic.Side{Entry: timed}, Baseline: traffic.Side{Entry: timed}})
	r.Add(traffic.Window{From: time.Second, To: 2 * time.Second, Canary: traffic.Side{Entry: untimed, Lacks: "NoData"}})
	if w := r.Windows[0]; len(r.Windows) != 1 || w.Canary.Lacks != "NoData" || w.Canary.Entry.Timed() || !w.Baseline.Entry.Timed() || w.To != 2*time.Second {
		t.Errorf("%+v", r.Windows)
	}
}

// A forged record neither panics nor takes all memory.
func TestForged(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"", "{}", `{"traffic":"AAAA"}`, `{"traffic":7}`} {
		if _, err := traffic.Unpack([]byte(raw)); err == nil {
			t.Errorf("%q was read", raw)
		}
	}
	bomb := &traffic.Record{Windows: []traffic.Window{{Canary: traffic.Side{Lacks: string(bytes.Repeat([]byte{'a'}, 8<<20))}}}}
	raw, err := bomb.Pack()
	if err != nil || !json.Valid(raw) {
		t.Fatal(err)
	}
	if _, err := traffic.Unpack(raw); err == nil {
		t.Error("8 MiB were read")
	}
}

// Windows come in order, also if the clock is set back or far ahead, and no request is lost.
func TestClockSteps(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 3))
		r := &traffic.Record{Start: time.Unix(1.8e9, 0).UTC()}
		now, requests := time.Duration(0), 0.0
		for i := range 400 {
			w := window(random, i, 15*time.Second, false)
			w.From = now
			now += time.Duration(random.IntN(30)) * time.Second
			if random.IntN(50) == 0 {
				now += time.Duration(random.IntN(200)-100) * time.Hour
			}
			w.To = now
			requests += w.Canary.Entry.Requests + w.Baseline.Entry.Requests
			r.Add(w)
		}
		raw, err := r.Pack()
		if err != nil || len(raw) > traffic.MostBytes || len(r.Windows) > traffic.MostWindows {
			t.Errorf("seed %d: %d bytes, %d windows, %v", seed, len(raw), len(r.Windows), err)
		}
		if got, _ := sum(r); got != requests {
			t.Errorf("seed %d: %v requests, want %v", seed, got, requests)
		}
		end := time.Duration(0)
		for _, w := range r.Windows {
			if w.From < end || w.To < w.From {
				t.Fatalf("seed %d: a window from %s to %s, after one until %s", seed, w.From, w.To, end)
			}
			end = w.To
		}
	}
}
