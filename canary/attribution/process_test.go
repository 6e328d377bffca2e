// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"math"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
)

// reading is one reading of one counter.
type reading struct {
	value float64
	// start of the process, 0 if unknown; container that serves it.
	start     float64
	container string
}

func finishedKey(outcome string) mapping.Key {
	return mapping.Key{Figure: mapping.Finished, Outcome: outcome}
}

func expose(source string, start float64, values map[mapping.Key]float64) scrape.Exposition {
	return scrape.Exposition{Start: start, Sources: []scrape.Source{{Name: source, Values: values}}}
}

func TestOneCounter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		old      bool
		readings []reading
		want     float64
		rejected map[string]int
		resets   int
	}{
		"a new process":                        {false, []reading{{5, 0, "0"}, {7, 0, "0"}}, 7, nil, 0},
		"an old process":                       {true, []reading{{5, 0, "0"}, {7, 0, "0"}}, 2, nil, 0},
		"counter fell":                         {false, []reading{{5, 0, ""}, {2, 0, ""}}, 7, nil, 1},
		"counter of an old process fell":       {true, []reading{{5, 0, ""}, {2, 0, ""}}, 2, nil, 1},
		"fell, restart reported later":         {false, []reading{{5, 0, "0"}, {2, 0, "0"}, {3, 0, "1"}}, 8, nil, 1},
		"fell, restart reported":               {false, []reading{{5, 0, "0"}, {2, 0, "1"}, {3, 0, "1"}}, 8, nil, 1},
		"restarted, counter is higher already": {false, []reading{{5, 0, "0"}, {6, 0, "1"}}, 11, nil, 1},
		"start time and container changed":     {false, []reading{{5, 100, "0"}, {6, 200, "1"}}, 11, nil, 1},
		"clock steps": {
			false,
			[]reading{{5, 100, "0"}, {6, 105, "0"}, {7, 100, "0"}, {8, 105, "0"}},
			8, nil, 0,
		},
		"clock steps, container unknown": {
			false,
			[]reading{{5, 100, ""}, {6, 105, ""}, {7, 100, ""}, {8, 105, ""}},
			8,
			nil, 0,
		},
		"clock steps by a day":         {false, []reading{{5, 100, "0"}, {6, 86500, "0"}, {7, 100, "0"}}, 7, nil, 0},
		"clock steps during a restart": {false, []reading{{5, 100, "0"}, {2, 101, "1"}, {3, 101, "1"}}, 8, nil, 1},
		"overtaken, container told later": {
			false,
			[]reading{{5, 100, "0"}, {6, 200, "0"}, {8, 200, "1"}, {9, 200, "1"}},
			14, nil, 1,
		},
		"overtaken, container told too late": {
			false,
			[]reading{
				{5, 100, "0"},
				{6, 200, "0"},
				{6, 200, "0"},
				{6, 200, "0"},
				{6, 200, "0"},
				{6, 200, "0"},
				{6, 200, "0"},
				{7, 200, "1"},
			},
			7, nil, 0,
		},
		"overtaken, container told earlier": {false, []reading{{5, 100, "0"}, {6, 100, "1"}, {7, 200, "1"}}, 13, nil, 1},
		"overtaken, container unknown":      {false, []reading{{5, 100, ""}, {5, 100, ""}, {6, 200, ""}}, 11, nil, 1},
		"fell, container told later":        {false, []reading{{5, 100, "0"}, {2, 200, "0"}, {3, 200, "1"}}, 8, nil, 1},
		"clock adjusted":                    {false, []reading{{5, 100, "0"}, {6, 101.5, "0"}}, 6, nil, 0},
		"start time reported late":          {false, []reading{{5, 0, "0"}, {6, 100, "0"}, {2, 200, "1"}}, 8, nil, 1},
		"invalid: fell in the same process": {
			false,
			[]reading{{5, 100, "0"}, {2, 100, "0"}, {6, 100, "0"}},
			6,
			map[string]int{RejectedFall: 1},
			0,
		},
		"stays low": {
			false,
			[]reading{{5, 100, ""}, {1, 100, ""}, {2, 100, ""}, {3, 100, ""}, {4, 100, ""}},
			6,
			map[string]int{RejectedFall: 3},
			0,
		},
		"invalid: jumped": {
			false,
			[]reading{{5, 100, ""}, {1e15, 100, ""}, {6, 100, ""}},
			6,
			map[string]int{RejectedJump: 1},
			0,
		},
		"stays high": {
			false,
			[]reading{{0, 100, ""}, {1e15, 100, ""}, {1e15, 100, ""}, {1e15, 100, ""}, {1e15 + 4, 100, ""}},
			4,
			map[string]int{RejectedJump: 3},
			0,
		},
		"other container restarted": {false, []reading{{5, 100, "0"}, {6, 100, "1"}}, 6, nil, 0},
		"restarted twice, reported once": {
			false,
			[]reading{{5, 0, "0"}, {2, 0, "0"}, {1, 0, "0"}, {3, 0, "2"}},
			10,
			nil, 2,
		},
		"new counter": {
			false,
			[]reading{{math.NaN(), 0, ""}, {3, 0, ""}, {math.NaN(), 0, ""}, {4, 0, ""}},
			4, nil, 0,
		},
		"old process, new counter": {true, []reading{{math.NaN(), 0, ""}, {3, 0, ""}}, 3, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p process
			total, resets := 0.0, 0
			rejected := map[string]int{}
			at := time.Unix(1000, 0)
			for _, r := range c.readings {
				at = at.Add(15 * time.Second)
				e := scrape.Exposition{Start: r.start}
				if !math.IsNaN(r.value) {
					e = expose("s", r.start, map[mapping.Key]float64{finishedKey("ok"): r.value})
				}
				s := p.advance(e, asRead, c.old, r.container, at)
				for reason, n := range s.rejected {
					rejected[reason] += n
				}
				if s.reset {
					resets++
				}
				for _, d := range s.deltas {
					if d < 0 {
						t.Errorf("a delta of %v", d)
					}
					total += d
				}
			}
			if total != c.want || resets != c.resets {
				t.Errorf("counted %v with %d resets, want %v with %d", total, resets, c.want, c.resets)
			}
			for _, reason := range Rejections() {
				if rejected[reason] != c.rejected[reason] {
					t.Errorf("%d rejected because of %s, want %d", rejected[reason], reason, c.rejected[reason])
				}
			}
		})
	}
}

// One series that falls among many is no counter reset.
func TestOneFallAmongMany(t *testing.T) {
	t.Parallel()
	var p process
	at := time.Unix(1000, 0)
	values := func(ok, failed, late float64) scrape.Exposition {
		return expose("s", 0, map[mapping.Key]float64{
			finishedKey("ok"): ok, finishedKey("error"): failed,
			finishedKey("timeout"): late,
		})
	}
	p.advance(values(10, 20, 30), asRead, false, "", at)
	s := p.advance(values(9, 21, 31), asRead, false, "", at.Add(15*time.Second))
	if s.reset || s.rejected[RejectedFall] != 1 || len(s.deltas) != 2 {
		t.Errorf("%+v", s)
	}
	s = p.advance(values(1, 2, 31), asRead, false, "", at.Add(30*time.Second))
	if !s.reset || s.deltas[finishedKey("timeout")] != 31 {
		t.Errorf("%+v", s)
	}
}

// If an application exports the contract's metrics later than its library counts, every request counts
// once.
func TestABetterSourceComes(t *testing.T) {
	t.Parallel()
	var p process
	at := time.Unix(1000, 0)
	both := func(neutral, kamon float64) scrape.Exposition {
		var e scrape.Exposition
		if neutral > 0 {
			e.Sources = append(e.Sources, scrape.Source{
				Name:   "neutral",
				Values: map[mapping.Key]float64{finishedKey("ok"): neutral},
			})
		}
		e.Sources = append(e.Sources, scrape.Source{
			Name:   "kamon",
			Values: map[mapping.Key]float64{finishedKey("unknown"): kamon},
		})
		return e
	}
	total := 0.0
	for _, e := range []scrape.Exposition{both(0, 3), both(5, 5), both(9, 9), both(0, 11), both(12, 12)} {
		at = at.Add(15 * time.Second)
		for _, d := range p.advance(e, asRead, false, "", at).deltas {
			total += d
		}
	}
	if total != 12 || p.source != "neutral" {
		t.Errorf("counted %v of 12, by %s", total, p.source)
	}
}

func asRead(s scrape.Source) map[mapping.Key]float64 { return s.Values }
