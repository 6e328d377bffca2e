// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

func played(p Plan, windows int, each func(i int, w *Window)) verdict.Judgement {
	run := Start(epoch, nil)
	for i := range windows {
		w := at(i, arm(100, 0), arm(900, 0))
		if each(i, &w); run.Analyze(p, w).Verdict != verdict.Running {
			break
		}
	}
	return run.Last
}

// What the canary's young pods do fails nothing by comparison or limit, and is a warning.
func TestYoungPodsAreNotCompared(t *testing.T) {
	t.Parallel()
	p := errorsOnly()
	p.Warmup = 2 * time.Minute
	p.Metrics[0].Limit = .1
	j := played(p, 100, func(i int, w *Window) {
		if i < 4 {
			w.Canary.Errors = 60
			w.Young.Canary = Arm{Finished: 100, Errors: 60}
		}
	})
	if j.Verdict != verdict.Warn || !slices.Contains(j.Reasons, verdict.ColdStart) || !strings.Contains(j.Message, "starts cold: ") {
		t.Errorf("%s %q: %s", j.Verdict, j.Reasons, j.Message)
	}
}

// A canary whose pods are always young never passes, and one whose grown pods are bad fails.
func TestACanaryThatStaysYoungDoesNotPass(t *testing.T) {
	t.Parallel()
	p := errorsOnly()
	p.Warmup = 2 * time.Minute
	j := played(p, 200, func(_ int, w *Window) { w.Young.Canary = Arm{Finished: 60} })
	if j.Verdict.Passes() || !slices.Contains(j.Reasons, verdict.ColdStart) {
		t.Errorf("always young: %s %q: %s", j.Verdict, j.Reasons, j.Message)
	}
	j = played(p, 200, func(i int, w *Window) {
		w.Canary.Errors, w.Baseline.Errors = 10, 9
		if i < 4 {
			w.Young.Canary = Arm{Finished: 100, Errors: 10}
		}
	})
	if j.Verdict != verdict.Fail {
		t.Errorf("bad when grown: %s %q: %s", j.Verdict, j.Reasons, j.Message)
	}
}

// A canary that was worse and is no longer is not failed by comparison, and the message says so.
func TestAFadingCanaryDoesNotFail(t *testing.T) {
	t.Parallel()
	p := errorsOnly()
	p.Warmup, p.MinCanary, p.MinBaseline = time.Minute, 3000, 3000
	j := played(p, 60, func(i int, w *Window) {
		if w.Baseline.Errors = 9; i < 12 {
			w.Canary.Errors = 60
		}
	})
	if j.Verdict == verdict.Fail || !strings.Contains(j.Message, "fading") {
		t.Errorf("%s %q: %s", j.Verdict, j.Reasons, j.Message)
	}
}

// A shard is young for a while after a side first handled it.
func TestYoungShardsAreLeftOut(t *testing.T) {
	t.Parallel()
	p := Plan{Sharded: true, Warmup: time.Minute}
	var s shards
	s.begin(map[string]Counts{"a": {Finished: 10}})
	look := func(began time.Duration) (Window, ShardWindow) {
		w := Window{Shards: map[string]ShardWindow{"a": {Baseline: Counts{Finished: 9}}, "b": {Canary: Counts{Finished: 5, Errors: 2}}}}
		fresh := s.takeFresh(p, &w, began)
		return w, fresh
	}
	if w, fresh := look(30 * time.Second); len(w.Shards) != 1 || fresh.Canary.Errors != 2 || fresh.Baseline.Finished != 0 {
		t.Errorf("at first: %+v %+v", w.Shards, fresh)
	}
	if w, fresh := look(75 * time.Second); len(w.Shards) != 1 || fresh.Canary.Errors != 2 {
		t.Errorf("45 s later: %+v %+v", w.Shards, fresh)
	}
	if w, fresh := look(90 * time.Second); len(w.Shards) != 2 || fresh != (ShardWindow{}) {
		t.Errorf("a minute later: %+v %+v", w.Shards, fresh)
	}
}
