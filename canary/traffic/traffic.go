// SPDX-License-Identifier: Apache-2.0

// Package traffic is what both sides of a gate's run did, over time: what is left of a run that has ended.
//
// Its invariants: it is pure. Windows come in order, and there are never more than MostWindows of them, however long
// the run is. A window whose counts are not known says why, so that it is not mistaken for one without requests.
package traffic

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"
)

const (
	// MostWindows of a record. Beyond it, two become one.
	MostWindows = 120
	// MostBytes of a stored record. If that is not enough, two windows become one.
	MostBytes = 32 << 10
	// mostUnpacked limits the memory that a forged record can use.
	mostUnpacked = 4 << 20
)

// Record is what both sides of a run did.
type Record struct {
	// Start is when the first window begins.
	Start time.Time `json:"start"`
	// Width is how long a window may become by taking in the next one; 0 as long as none had to.
	Width time.Duration `json:"width,omitempty"`
	// Sharded means that requests may be handled elsewhere than where they enter.
	Sharded bool `json:"sharded,omitempty"`
	// Bounds of the histograms in seconds, by where requests enter and by where they are handled.
	Bounds        []float64 `json:"bounds,omitempty"`
	HandledBounds []float64 `json:"handledBounds,omitempty"`
	Windows       []Window  `json:"windows"`
}

// Window is what both sides did in a part of a run.
type Window struct {
	// From and To count from the start of the record.
	From     time.Duration `json:"from"`
	To       time.Duration `json:"to"`
	Canary   Side          `json:"canary"`
	Baseline Side          `json:"baseline"`
}

// Side is what one Revision did.
type Side struct {
	// Entry counts requests where they enter, Handled where they are handled; only for sharded Services.
	Entry   Counts  `json:"entry"`
	Handled *Counts `json:"handled,omitempty"`
	// Lacks is why Entry is not known.
	Lacks string `json:"lacks,omitempty"`
}

// Counts are numbers of requests that have finished.
type Counts struct {
	Requests float64 `json:"n,omitempty"`
	// Errors have a 5xx code, or are timeouts; ClientErrors have a 4xx code.
	Errors       float64 `json:"errors,omitempty"`
	ClientErrors float64 `json:"client,omitempty"`
	// Seconds is the sum of the durations.
	Seconds float64 `json:"seconds,omitempty"`
	// Buckets count durations, one for each bound and one for what is above; those at the end are left out if they are
	// empty. All of them are if durations are not known.
	Buckets []float64 `json:"buckets,omitempty"`
}

// Plus returns the sum. Without the durations of one of them, it has none.
func (c Counts) Plus(o Counts) Counts {
	out := Counts{
		Requests: c.Requests + o.Requests, Errors: c.Errors + o.Errors, ClientErrors: c.ClientErrors + o.ClientErrors,
		Seconds: c.Seconds + o.Seconds,
	}
	if !c.Timed() || !o.Timed() {
		return out
	}
	out.Buckets = make([]float64, max(len(c.Buckets), len(o.Buckets)))
	for i := range out.Buckets {
		for _, b := range [][]float64{c.Buckets, o.Buckets} {
			if i < len(b) {
				out.Buckets[i] += b[i]
			}
		}
	}
	return out
}

// Timed reports whether the durations are known. Without requests, they are.
func (c Counts) Timed() bool { return c.Requests == 0 || len(c.Buckets) > 0 }

func (s Side) plus(o Side) Side {
	out := Side{Entry: s.Entry.Plus(o.Entry), Lacks: s.Lacks}
	if out.Lacks == "" {
		out.Lacks = o.Lacks
	}
	if s.Handled != nil || o.Handled != nil {
		var both Counts
		for _, h := range []*Counts{s.Handled, o.Handled} {
			if h != nil {
				both = both.Plus(*h)
			}
		}
		out.Handled = &both
	}
	return out
}

// Buckets turns a cumulative histogram, by upper bound, into bounds and counts for each bucket. It returns nothing
// unless the bucket of all requests is there.
func Buckets(cumulative map[float64]float64) (bounds, counts []float64) {
	if _, ok := cumulative[math.Inf(1)]; !ok {
		return nil, nil
	}
	below := 0.0
	for _, bound := range slices.Sorted(maps.Keys(cumulative)) {
		if !math.IsInf(bound, 1) {
			bounds = append(bounds, bound)
		}
		counts = append(counts, max(0, cumulative[bound]-below))
		below = max(below, cumulative[bound])
	}
	for len(counts) > 0 && counts[len(counts)-1] == 0 {
		counts = counts[:len(counts)-1]
	}
	return bounds, counts
}

// Add adds the next window. If the clock was set back, it begins where the last one ended.
func (r *Record) Add(w Window) {
	w.From = max(w.From, r.End())
	w.To = max(w.To, w.From)
	if n := len(r.Windows); n > 0 && w.To-r.Windows[n-1].From <= r.Width {
		r.Windows[n-1] = join(r.Windows[n-1], w)
		return
	}
	for r.Windows = append(r.Windows, w); len(r.Windows) > MostWindows; {
		r.widen()
	}
}

func join(a, b Window) Window {
	return Window{From: a.From, To: b.To, Canary: a.Canary.plus(b.Canary), Baseline: a.Baseline.plus(b.Baseline)}
}

// widen makes windows about twice as long. Times without requests between them stay out, as far as possible.
func (r *Record) widen() {
	all := r.Windows
	long := make([]time.Duration, len(all))
	for i, w := range all {
		long[i] = w.To - w.From
	}
	slices.Sort(long)
	r.Width = max(2*r.Width, long[len(long)/2]*9/4, time.Second) // a quarter more, as they differ
	r.Windows = nil
	for _, w := range all {
		if n := len(r.Windows); n > 0 && w.To-r.Windows[n-1].From <= r.Width {
			r.Windows[n-1] = join(r.Windows[n-1], w)
		} else {
			r.Windows = append(r.Windows, w)
		}
	}
}

// End is the end of the last window, from the start.
func (r *Record) End() time.Duration {
	if len(r.Windows) == 0 {
		return 0
	}
	return r.Windows[len(r.Windows)-1].To
}

// packed is how a record is stored.
type packed struct {
	Gzip []byte `json:"traffic"`
}

// Pack returns the record as JSON of at most MostBytes.
func (r *Record) Pack() ([]byte, error) {
	for of := *r; ; of.widen() {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if err := errors.Join(json.NewEncoder(w).Encode(&of), w.Close()); err != nil {
			return nil, fmt.Errorf("packing what a run measured: %w", err)
		}
		raw, err := json.Marshal(packed{b.Bytes()})
		if err != nil {
			return nil, fmt.Errorf("writing what a run measured: %w", err)
		}
		if len(raw) <= MostBytes || len(of.Windows) < 2 {
			return raw, nil
		}
	}
}

// Unpack reads a packed record.
func Unpack(raw []byte) (*Record, error) {
	var p packed
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, fmt.Errorf("reading what a run measured: %w", err)
	}
	r, err := gzip.NewReader(bytes.NewReader(p.Gzip))
	if err != nil {
		return nil, fmt.Errorf("unpacking what a run measured: %w", err)
	}
	out := &Record{}
	if err := json.NewDecoder(io.LimitReader(r, mostUnpacked)).Decode(out); err != nil {
		return nil, fmt.Errorf("unpacking what a run measured: %w", err)
	}
	return out, nil
}
