// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
	"github.com/knative-cdevents/knative-cdevents/canary/traffic"
	"github.com/knative-cdevents/knative-cdevents/cli/compare"
)

// What a finished run keeps suffices for the rules of other tools: kubectl cdevents compare says of it what they say of
// the counters of the gateway.
func TestFinishedRunShowsWhatOthersSay(t *testing.T) {
	t.Parallel()
	for _, w := range []world{
		named(t, "errors", "none on both sides"),
		{name: "0.1 → 20 %", behaves: apart(failing(.001), failing(.2))},
		{name: "0.1 → 20 %, sharded", shards: 100, behaves: apart(failing(.001), failing(.2))},
	} {
		w = w.withDefaults()
		w.before = time.Minute
		s := newScene(w, rand.New(rand.NewPCG(3, 1)), false)
		if err := s.until(0); err != nil {
			t.Fatal(err)
		}
		many := int64(1e9)
		spec := v1alpha1.CanaryGateSpec{Service: service.Name, GatePolicy: v1alpha1.GatePolicy{Minimum: &v1alpha1.GateMinimum{CanaryRequests: &many}}}
		lasts(longestRival + time.Minute)(&spec)
		run, err := gaterun.Open(t.Context(), gaterun.Opening{Namespace: service.Namespace, ID: "run", Spec: &spec, Start: s.now()})
		if err != nil {
			t.Fatal(err)
		}
		for !run.Done() {
			if err := s.until(s.at + 1); err != nil {
				t.Fatal(err)
			}
			if s.now().Before(run.Due()) {
				continue
			}
			if err := run.Step(gaterun.Moment{Now: s.now(), Known: true, Service: s.state(), Counts: s.counts, Analyze: (*judge.Run).Analyze}); err != nil {
				t.Fatal(err)
			}
		}
		raw := run.GateRun.Evidence.Raw
		measured, err := traffic.Unpack(raw)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d windows over %s in %d bytes", w.name, len(measured.Windows), measured.End(), len(raw))
		want := s.rivals()
		for i, o := range compare.Documented(kayentaFor).Opinions(measured) {
			if want[i] == verdict.Warn {
				want[i] = verdict.Pass
			}
			if string(o.Decision) != string(want[i]) {
				t.Errorf("%s: %s says %s (%s) of what is kept, and %s of the gateway", w.name, o.Tool, o.Decision, o.Verdict, want[i])
			}
		}
	}
}
