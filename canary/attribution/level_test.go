// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"testing"
	"time"
)

// serve lets the first Revision's pod serve 100 requests a minute, of which that many fail, and reads all pods.
func (b *bench) serve(minutes int, failed float64, ok, bad *float64) {
	for range minutes {
		b.pass(time.Minute)
		*ok, *bad = *ok+100-failed, *bad+failed
		b.readBoth(handled(*ok, *bad), handled(0, 0))
	}
}

// The baseline's past is its worst five minutes before the canary's first pod. What comes later, also in a later step
// of the same rollout, does not become the new normal.
func TestLevelEndsAtTheFirstPod(t *testing.T) {
	t.Parallel()
	f := sharded()
	canary := f.Pods[1]
	f.Pods = f.Pods[:1]
	b := newBench(true, f)
	var ok, bad float64
	b.serve(20, 1, &ok, &bad)
	b.serve(10, 2, &ok, &bad)
	b.serve(20, 1, &ok, &bad)
	s, _ := b.Snapshot(cart)
	if l := s.Level("r1", "r2"); l.Errors != (Ratio{10, 500}) || l.Watched < 45*time.Minute || l.Above[10].All != 500 {
		t.Errorf("before the first pod: %+v", l)
	}
	b.facts.Pods = append(b.facts.Pods, canary)
	b.serve(30, 40, &ok, &bad)
	for _, gone := range []bool{false, true} {
		if gone { // the canary scaled to zero, and starts again for its next step
			b.facts.Pods = b.facts.Pods[:1]
			b.serve(10, 40, &ok, &bad)
			b.facts.Pods = append(b.facts.Pods, canary)
			b.serve(1, 40, &ok, &bad)
		}
		s, _ = b.Snapshot(cart)
		if l := s.Level("r1", "r2"); l.Errors != (Ratio{10, 500}) {
			t.Errorf("since the first pod (gone meanwhile: %t): %+v", gone, l)
		}
	}
	if l := s.Level("r1", "r3"); l.Errors.Rate() != .4 {
		t.Errorf("before a Revision without a pod: %+v", l)
	}
	if l := s.Level("r2", "r1"); l.Watched != 0 {
		t.Errorf("the canary before the baseline: %+v", l)
	}
}

// A process that starts after the canary's first pod does not know what was before it.
func TestLevelOfAnotherProcess(t *testing.T) {
	t.Parallel()
	b := newBench(false, sharded())
	var ok, bad float64
	b.serve(60, 1, &ok, &bad)
	s, _ := b.Snapshot(cart)
	if l := s.Level("r1", "r2"); l.Watched != 0 || l.Errors.All != 0 {
		t.Errorf("%+v", l)
	}
}

// A stretch with few requests has bad moments by chance, so it lasts until there are enough.
func TestLevelNeedsRequests(t *testing.T) {
	t.Parallel()
	f := sharded()
	f.Pods = f.Pods[:1]
	b := newBench(true, f)
	for minute := range 60 {
		b.pass(time.Minute)
		b.readBoth(handled(float64(5*minute), 0), handled(0, 0))
	}
	s, _ := b.Snapshot(cart)
	if l := s.Level("r1", "r2"); l.Watched != 0 {
		t.Errorf("%+v", l)
	}
}

// The past keeps the worst of one hour, and of at most two.
func TestLevelForgets(t *testing.T) {
	t.Parallel()
	f := sharded()
	f.Pods = f.Pods[:1]
	b := newBench(true, f)
	var ok, bad float64
	b.serve(10, 50, &ok, &bad)
	for _, hour := range []struct{ minutes, worst float64 }{{55, .5}, {75, .01}} {
		b.serve(int(hour.minutes), 1, &ok, &bad)
		s, _ := b.Snapshot(cart)
		if l := s.Level("r1", "r2"); l.Errors.Rate() != hour.worst {
			t.Errorf("after %v min: %+v", hour.minutes, l)
		}
	}
}
