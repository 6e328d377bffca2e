// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"math"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// A canary that harms what it shares with its baseline, such as a database, looks no worse than the baseline. So the
// baseline is compared with its own worst stretch before the canary's first pod. An hour or two of past know no day and
// no week, so only gross worsening counts. It withholds a Pass while it lasts, and fails nothing: something else may be
// broken.

const (
	// grossOdds is the multiple of the worst odds of the past that is gross. What clients ask for
	// changes more, so theirs is grossClientOdds.
	grossOdds       = 3
	grossClientOdds = 10
	// worsenedDeviations is how certain the worsening must be, in standard deviations.
	worsenedDeviations = 2
	// recentStep and recentRequests are what a stretch of the baseline needs at least: those of the past have as much.
	recentStep     = 5 * time.Minute
	recentRequests = 300
)

// Level is how bad the baseline was at its worst before the canary's first pod: the stretch with the highest rate, by
// what counts as bad. Ratios without requests are unknown.
type Level struct {
	// Watched is for how long.
	Watched                           time.Duration
	Errors, EntryErrors, ClientErrors Ratio
	// Above by histogram bound, in seconds.
	Above map[float64]Ratio
}

// Ratio is a number of bad requests, and of all requests.
type Ratio struct{ Bad, All float64 }

// worst is a Level as it is stored.
type worst struct {
	Watched time.Duration `json:"watched,omitempty"`
	Errors  tally         `json:"errors,omitzero"`
	Entry   tally         `json:"entry,omitzero"`
	Client  tally         `json:"client,omitzero"`
	// Above by bound, as a list because JSON keys cannot be numbers.
	Above []boundTally `json:"above,omitempty"`
}

type boundTally struct {
	Bound float64 `json:"bound"`
	Worst tally   `json:"worst"`
}

// Recall takes how bad the baseline was before the canary's first pod. A Level that was watched for less than
// leastHistory is unknown.
func (r *Run) Recall(l Level) {
	w := worst{
		Watched: l.Watched, Errors: whole(l.Errors.All, l.Errors.Bad),
		Entry: whole(l.EntryErrors.All, l.EntryErrors.Bad),
	}
	w.Client = whole(l.ClientErrors.All, l.ClientErrors.Bad)
	for _, bound := range sortedKeys(l.Above) {
		w.Above = append(w.Above, boundTally{bound, whole(l.Above[bound].All, l.Above[bound].Bad)})
	}
	r.Evidence.Worst = worst{}
	if w.known() {
		r.Evidence.Worst = w
	}
}

func (w worst) known() bool { return w.Watched >= leastHistory && w.Errors.N > 0 }

// of returns the worst stretch by what a metric calls bad.
func (w worst) of(m Metric, bound float64) (t tally, known bool) {
	t = m.Kind.kind().worst(w, bound)
	return t, t.N > 0
}

// above returns the worst stretch by what is slower than a bound.
func (w worst) above(bound float64) tally {
	for _, b := range w.Above {
		if b.Bound == bound {
			return b.Worst
		}
	}
	return tally{}
}

// recent is what the baseline did lately: in the current stretch and the one before.
type recent struct {
	Before tally         `json:"before,omitzero"`
	Now    tally         `json:"now,omitzero"`
	Long   time.Duration `json:"long,omitempty"`
}

func (r *recent) add(t tally, long time.Duration) {
	if r.Long >= recentStep && r.Now.N >= recentRequests {
		*r = recent{Before: r.Now}
	}
	r.Now.add(t)
	r.Long += long
}

func (r recent) tally() tally {
	both := r.Before
	both.add(r.Now)
	return both
}

// worsened returns a test by which the baseline is grossly worse than it ever was before the canary's first pod, with
// its worst rate then; nil if there is none, or if the past is not known.
func (d *metricData) worsened(m Metric, w worst, before past) (t *test, was float64) {
	for _, t := range d.Tests {
		past, known := w.of(m, t.Bound)
		if !known {
			continue
		}
		now := t.Recent.tally()
		// Requests that fail in clusters count as fewer.
		spread := t.spreadOfPods(before, m)
		low, _ := wilson(tally{N: now.N / spread, K: now.K / spread}, worsenedDeviations)
		if now.N >= recentRequests && low > timesOdds(max(past.rate(), m.negligible()), m.Kind.kind().traits().gross()) {
			return t, past.rate()
		}
	}
	return nil, 0
}

// timesOdds returns the rate whose odds are a multiple of those of another.
func timesOdds(rate, by float64) float64 { return by * rate / (1 - rate + by*rate) }

// worsening lists the metrics by which the baseline is grossly worse than ever.
func (e *evidence) worsening(p Plan) []string {
	var say []string
	for _, m := range p.Metrics {
		d := e.Metrics[m.Name]
		if d == nil || m.DryRun {
			continue
		}
		if t, was := d.worsened(m, e.Worst, e.Past); t != nil {
			now := t.Recent.tally().rate()
			say = append(
				say,
				fmt.Sprintf(
					"the baseline's %s is %s, and was %s at its worst in the %s before the canary's first pod: the canary may harm both",
					m.Name,
					percent(&now),
					percent(&was),
					e.Worst.Watched.Round(time.Minute),
				),
			)
		}
	}
	return say
}

// explainPast says what is known of the baseline's past, if that matters.
func (e *evidence) explainPast(p Plan) []string {
	if !e.Worst.known() {
		return []string{
			"what the baseline did before the canary's first pod is not known, so harm to both sides would not show",
		}
	}
	return e.worsening(p)
}

// withoutPast turns a Pass into a Warn where the plan asks for a past and there is none.
func (j *judgement) withoutPast(p Plan, e *evidence) {
	if p.PastRequired && j.Verdict == verdict.Pass && !e.Worst.known() {
		j.Verdict, j.Reasons = verdict.Warn, append([]verdict.Reason{verdict.PastUnknown}, j.Reasons...)
	}
}

// check returns why a stored worst stretch cannot be used.
func (w worst) check() error {
	for _, t := range append([]boundTally{{Worst: w.Errors}, {Worst: w.Entry}, {Worst: w.Client}}, w.Above...) {
		if !(t.Worst.K >= 0 && t.Worst.K <= t.Worst.N) || math.IsInf(t.Worst.N, 0) {
			return fmt.Errorf("%v of %v requests were bad", t.Worst.K, t.Worst.N)
		}
	}
	return nil
}
