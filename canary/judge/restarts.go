// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/plural"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// Containers restart on both sides: they run out of memory, or a dependency is away. So the canary's restarts are
// compared with the baseline's by the time that the pods of each side have run. If both sides restart as often, each
// restart is the canary's with the probability of its part of the pod-time, whatever the rate is at that moment: of two
// Poisson counts, one has a binomial distribution, given their sum. So the ratio of two such likelihoods is fair, and
// multiplied over minutes it is an e-process.
//
// Restarts come in clusters: one node takes several pods with it. So the restarts of a minute count as one: their
// likelihood ratios are averaged. Each of them is fair, however the restarts of a minute depend on each other.
//
// Pods also restart more often when they begin, and the canary's have just begun. So young pods are compared with young
// ones, and the age when a window begins decides.
//
// A crash loop needs no comparison.

const (
	// restartPart of Alpha, compared with what another metric takes.
	restartPart = 0.1
	// restartRatio is the multiple of the baseline's rate of restarts that is tolerated.
	restartRatio = 1.5
	// restartUnit is the time in which restarts count as one.
	restartUnit = time.Minute
	// leastPart is the least expected part of the canary. A smaller one would make single restarts of it a proof.
	leastPart = 0.01
	// loopRestarts of one pod within loopTime are a crash loop, as is a back-off of the kubelet, unless a pod of the
	// baseline restarted more than a third as often in the whole run: what both sides need may be away.
	loopRestarts = 3
	loopTime     = time.Hour
	// mostRestarted limits the pods of a side whose restarts are kept, and mostKept those of each.
	mostRestarted = 64
	mostKept      = 32
	// restartChance is how probable a number of restarts must be to be no warning.
	restartChance = 0.1
)

// restartGrid are the alternatives: the ratios of the canary's rate to the baseline's.
var restartGrid = []float64{3, 10, 30, 100}

// Life is how a pod of either side fared in a window.
type Life struct {
	// Pod is a name that is unique in the Service.
	Pod    string
	Canary bool
	// Young means that the pod was younger than Warmup when the window began.
	Young bool
	// Ran is for how long its containers ran, including the time until one is started again.
	Ran time.Duration
	// Restarts of its containers that no disruption caused. CrashLoop means that, at the end of the window, the kubelet
	// waits before it starts a container again.
	Restarts  float64
	CrashLoop bool
}

// restarts is what a run knows about them.
type restarts struct {
	// Minute is the current one, with the grown pods and the young ones.
	Minute restartMinute `json:"minute,omitzero"`
	// Logs are what each alternative has won, as logarithms.
	Logs []float64 `json:"logs,omitempty"`
	// Count and Ran, in seconds, of both sides.
	Count sides `json:"count,omitzero"`
	Ran   sides `json:"ran,omitzero"`
	// Before is what the baseline's pods did before the run: how often they restarted, in how many seconds.
	Before tally `json:"before,omitzero"`
	// Canary holds the last restarts of its pods, as seconds since the run's start. Baseline counts those of its pods.
	Canary   map[string][]float64 `json:"canary,omitempty"`
	Baseline map[string]float64   `json:"baseline,omitempty"`
	// Looped and Failed are final: a pod of the canary is in a crash loop, or it restarts too often.
	Looped bool `json:"looped,omitempty"`
	Failed bool `json:"failed,omitempty"`
}

type restartMinute struct {
	Long  time.Duration `json:"long,omitempty"`
	Grown exposed       `json:"grown,omitzero"`
	Young exposed       `json:"young,omitzero"`
}

// exposed is how often the pods of both sides restarted, and for how many seconds they ran.
type exposed struct {
	Count sides `json:"count,omitzero"`
	Ran   sides `json:"ran,omitzero"`
}

func (e *exposed) add(l Life) {
	n, ran := whole(l.Restarts, 0).N, max(0, l.Ran.Seconds())
	if l.Canary {
		e.Count.Canary, e.Ran.Canary = e.Count.Canary+n, e.Ran.Canary+ran
	} else {
		e.Count.Baseline, e.Ran.Baseline = e.Count.Baseline+n, e.Ran.Baseline+ran
	}
}

// add takes a window that ended at elapsed after the run's start.
func (r *restarts) add(p Plan, w Window, elapsed time.Duration) {
	if !p.Limits.CompareRestarts {
		return
	}
	for _, l := range w.Lives {
		group := &r.Minute.Grown
		if l.Young {
			group = &r.Minute.Young
		}
		group.add(l)
		all := exposed{Count: r.Count, Ran: r.Ran}
		all.add(l)
		r.Count, r.Ran = all.Count, all.Ran
		r.remember(l, elapsed.Seconds())
	}
	r.Looped = r.Looped || r.loops(w.Lives, elapsed.Seconds())
	if r.Minute.Long += w.To.Sub(w.From); r.Minute.Long >= restartUnit {
		r.settle()
		r.Failed = r.Failed || r.proof() >= math.Log(p.restartLevel())
	}
}

// remember keeps when a pod of the canary restarted, or how often one of the baseline did.
func (r *restarts) remember(l Life, at float64) {
	n := whole(l.Restarts, 0).N
	switch {
	case n == 0:
	case l.Canary && (r.Canary[l.Pod] != nil || len(r.Canary) < mostRestarted):
		if r.Canary == nil {
			r.Canary = map[string][]float64{}
		}
		all := append(r.Canary[l.Pod], slices.Repeat([]float64{math.Round(at)}, int(min(n, mostKept)))...)
		r.Canary[l.Pod] = all[max(0, len(all)-mostKept):]
	case !l.Canary && (r.Baseline[l.Pod] > 0 || len(r.Baseline) < mostRestarted):
		if r.Baseline == nil {
			r.Baseline = map[string]float64{}
		}
		r.Baseline[l.Pod] += n
	}
}

// loops forgets what was long ago, and reports whether a pod of the canary restarts again and again, and none of the
// baseline. One that the kubelet does not start at once has restarted often enough: for the canary loopRestarts times,
// for the baseline twice.
func (r *restarts) loops(lives []Life, now float64) bool {
	most, others := 0, 1.0
	for _, l := range lives {
		switch {
		case l.CrashLoop && l.Canary:
			most = loopRestarts
		case l.CrashLoop:
			others = 2
		}
	}
	for pod, all := range r.Canary {
		all = slices.DeleteFunc(all, func(at float64) bool { return now-at >= loopTime.Seconds() })
		if most = max(most, len(all)); len(all) == 0 {
			delete(r.Canary, pod)
		} else {
			r.Canary[pod] = all
		}
	}
	for _, n := range r.Baseline {
		others = max(others, n)
	}
	return float64(most) >= loopRestarts*others
}

// settle takes the finished minute.
func (r *restarts) settle() {
	groups := []exposed{r.Minute.Grown, r.Minute.Young}
	r.Minute = restartMinute{}
	n := 0.0
	for _, g := range groups {
		n += g.Count.Canary + g.Count.Baseline
	}
	if n == 0 {
		return
	}
	if r.Logs == nil {
		r.Logs = make([]float64, len(restartGrid))
	}
	for i, ratio := range restartGrid {
		won := 0.0
		for _, g := range groups {
			won += g.likelihood(ratio)
		}
		r.Logs[i] += math.Log(won / n)
	}
}

// likelihood returns the sum over all restarts of the probability of the side that restarted if the canary's rate is a
// multiple of the baseline's, divided by that at the most that is tolerated.
func (e exposed) likelihood(ratio float64) float64 {
	if e.Ran.Canary <= 0 || e.Ran.Baseline <= 0 {
		return e.Count.Canary + e.Count.Baseline // There is nothing to compare with.
	}
	own := max(part(e.Ran.Canary, e.Ran.Baseline, restartRatio), leastPart)
	times := ratio / restartRatio
	all := times*own + 1 - own
	return e.Count.Canary*times/all + e.Count.Baseline/all
}

// proof returns the log e-value against the canary restarting as often as is tolerated: the mean over the alternatives.
func (r *restarts) proof() float64 { return logMean(r.Logs) }

// restartLevel is the e-value that is needed.
func (p Plan) restartLevel() float64 { return p.parts() / (p.Alpha * restartPart) }

// RecallRestarts takes how often the baseline's pods restarted before the run, and for how long they ran.
func (r *Run) RecallRestarts(restarts int, ran time.Duration) {
	r.Evidence.Restarted.Before = tally{N: max(0, ran.Seconds()), K: max(0, float64(restarts))}
}

// more reports whether the canary restarted more often than is tolerated, proven or not: by the rates in the run, and
// if the baseline's rate in the run and before does not explain it. The past decides nothing else, because it was
// another time.
func (r *restarts) more() bool {
	if r.Count.Canary == 0 || r.Count.Canary*r.Ran.Baseline <= restartRatio*r.Count.Baseline*r.Ran.Canary {
		return false
	}
	rate := (r.Count.Baseline + r.Before.K) / max(1, r.Ran.Baseline+r.Before.N)
	expected := restartRatio * rate * r.Ran.Canary
	term := math.Exp(-expected)
	fewer := term
	for k := 1.0; k < r.Count.Canary; k++ {
		term *= expected / k
		fewer += term
	}
	return 1-fewer <= restartChance
}

// restarted makes a Pass a Warn if the canary restarted more often, and that is not proven to be more than chance.
func (j *judgement) restarted(e *evidence) {
	if j.Verdict == verdict.Pass && e.Restarted.more() {
		j.Verdict, j.Reasons = verdict.Warn, append([]verdict.Reason{verdict.Restarts}, j.Reasons...)
	}
}

// explain describes the restarts for a person, if there are any.
func (r *restarts) explain(p Plan) []string {
	var say []string
	if r.Looped {
		say = append(say, fmt.Sprintf("a pod of the canary is in a crash loop, or restarted %d times within %.0f h",
			loopRestarts, loopTime.Hours()))
	}
	if r.Count.Canary+r.Count.Baseline == 0 {
		return say
	}
	const hour = 3600
	text := fmt.Sprintf("%s in %.3g h of the canary's pods, and %.0f in %.3g h of the baseline's",
		plural.Of(r.Count.Canary, "restart", "restarts"), r.Ran.Canary/hour, r.Count.Baseline, r.Ran.Baseline/hour)
	switch {
	case r.Failed:
		text += fmt.Sprintf(": more than %.3g times as often (e-value %.3g, and %.3g is needed)", restartRatio,
			value(r.proof()), p.restartLevel())
	case r.more() && !r.Looped:
		text += ": more often, but that may be chance"
	}
	if r.Before.N > 0 {
		text += fmt.Sprintf(" (the baseline's before the run: %.0f in %.3g h)", r.Before.K, r.Before.N/hour)
	}
	return append(say, text)
}

// check returns why stored evidence cannot be used.
func (r *restarts) check() error {
	if len(r.Logs) != 0 && len(r.Logs) != len(restartGrid) {
		return fmt.Errorf("there are %d alternatives, and %d are asked for", len(r.Logs), len(restartGrid))
	}
	before := exposed{Count: sides{Baseline: r.Before.K}, Ran: sides{Baseline: r.Before.N}}
	for _, e := range []exposed{{r.Count, r.Ran}, before, r.Minute.Grown, r.Minute.Young} {
		if min(e.Count.Canary, e.Count.Baseline, e.Ran.Canary, e.Ran.Baseline) < 0 {
			return errors.New("there are less than none")
		}
	}
	if r.Minute.Long < 0 {
		return fmt.Errorf("the current minute is %s long", r.Minute.Long)
	}
	return nil
}
