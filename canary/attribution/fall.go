// SPDX-License-Identifier: Apache-2.0

package attribution

import "github.com/knative-cdevents/knative-cdevents/canary/mapping"

// A counter may fall while the others of its process go on: its series was removed and came back, or somebody
// rewrote it. If it counts errors, they must not be lost with it. Once it stays low, it began again, so what it has
// counted since did happen; but a counter that was rewritten had counted that before. So these requests count as
// ones of which it is not known how they ended, which never fails a canary, and never lets one pass.

// fall is how a counter fell since its last accepted value.
type fall struct {
	// low is the last value, and lost what it had counted each time before it fell again.
	low, lost float64
}

func (f *fall) to(v float64) {
	if v < f.low {
		f.lost += f.low
	}
	f.low = v
}

// total is what a counter has counted, whether it began again or not.
func (m mark) total() float64 { return m.value + m.gone }

// begun returns the mark of a counter that counts from its new value, and notes what it hides.
func (m mark) begun(v float64, k mapping.Key, s *step) mark {
	if v >= m.value {
		return mark{value: v, gone: m.gone}
	}
	if s.hidden == nil {
		s.hidden = map[mapping.Key]float64{}
	}
	hide(s.hidden, k, m.fall.lost+v)
	return mark{value: v, gone: m.gone + m.value + m.fall.lost}
}

// hide counts what a counter that fell has counted since as requests of unknown outcome.
func hide(by map[mapping.Key]float64, k mapping.Key, n float64) {
	if to := unknownOf(k); to != k && n > 0 {
		by[to] += n
	}
}

// unknownOf returns the counter for requests of unknown outcome that goes with a counter of outcomes, and the key
// itself if there is none.
func unknownOf(k mapping.Key) mapping.Key {
	switch k.Figure {
	case mapping.Finished, mapping.ShardFinished:
		k.Outcome = mapping.Unknown
	case mapping.EntryHTTP:
		if k.Outcome != "" && k.Outcome[0] != '1' { // a connection is no request
			k.Outcome = mapping.Unknown
		}
	}
	return k
}

// A pod whose counters of outcomes fall again and again does not tell what it handles. A single fall is forgiven.
const (
	fallWeighs = 3
	mostFalls  = 3
	keptFalls  = 6
)

// unsteady weighs how often the counters of a pod have fallen lately.
type unsteady int

func (f *unsteady) note(fell bool) {
	if fell {
		*f = min(*f+fallWeighs, keptFalls)
		return
	}
	*f = max(0, *f-1)
}

func (f unsteady) often() bool { return f > mostFalls }
