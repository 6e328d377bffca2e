// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// evidence is all that is kept of the windows: sums, and log likelihoods.
type evidence struct {
	// Until is the end of the last window, judged or not. From is the beginning of the first judged
	// window, and To the end of the last.
	Until    time.Time `json:"until,omitzero"`
	From     time.Time `json:"from,omitzero"`
	To       time.Time `json:"to,omitzero"`
	Canary   float64   `json:"canary"`
	Baseline float64   `json:"baseline"`

	Restarts       float64 `json:"restarts,omitempty"`
	Started        float64 `json:"started,omitempty"`
	Unaccounted    float64 `json:"unaccounted,omitempty"`
	StartedUnknown bool    `json:"startedUnknown,omitempty"`

	Handled  weighted `json:"handled"`
	Required weighted `json:"required"`

	// Reached is what the canary got of what the Route gives it, Placed what it handled of the shards that
	// a placement plan gives it.
	Reached reached `json:"reached,omitzero"`
	Placed  reached `json:"placed,omitzero"`

	Open openings `json:"open,omitzero"`

	// Restarted compares restarts; Restarts only counts the canary's.
	Restarted restarts `json:"restarted,omitzero"`

	// Young counts the requests of young pods and shards.
	Young sides `json:"young,omitzero"`

	// Unsettled means that shards were being handed over in the last window.
	Unsettled bool `json:"unsettled,omitempty"`
	// Unanswering is the canary's unanswering pods in the last window.
	Unanswering int `json:"unanswering,omitempty"`
	// Analyses is the number of interim analyses of the shards. Its JSON name is older.
	Analyses int    `json:"looks,omitempty"`
	Shards   shards `json:"shards,omitzero"`
	Past     past   `json:"past,omitzero"`
	// Worst is how bad the baseline was before the canary's first pod.
	Worst   worst                  `json:"worst,omitzero"`
	Metrics map[string]*metricData `json:"metrics,omitempty"`
}

// weighted is a weighted mean.
type weighted struct {
	Sum    float64 `json:"sum,omitempty"`
	Weight float64 `json:"weight,omitempty"`
}

// add adds a share and ignores a value that is not one.
func (w *weighted) add(v, weight float64) {
	if !(v >= 0 && v <= 1) {
		return
	}
	w.Sum += v * weight
	w.Weight += weight
}

func (w weighted) mean() *float64 {
	if w.Weight == 0 {
		return nil
	}
	m := w.Sum / w.Weight
	return &m
}

// add takes a window that began some time after the run.
func (e *evidence) add(p Plan, w Window, began time.Duration) {
	if e.From.IsZero() {
		e.From = w.From.UTC().Round(0)
	}
	e.To = w.To.UTC().Round(0)
	canary, baseline := whole(w.Canary.Finished, 0).N, whole(w.Baseline.Finished, 0).N
	e.Canary += canary
	e.Baseline += baseline
	e.Restarts += whole(w.Canary.Restarts, 0).N
	if e.StartedUnknown = w.Canary.StartedUnknown; !e.StartedUnknown {
		e.Started += whole(w.Canary.Started, 0).N
		e.Unaccounted += whole(w.Canary.Unaccounted, 0).N
	}
	e.expose(p, w, canary, baseline)
	if w.UnsettledUnknown {
		w.Unsettled = e.Unsettled
	}
	e.Unsettled, e.Unanswering = w.Unsettled, w.Unanswering
	fresh := e.Shards.takeFresh(p, &w, began)
	e.Young.add(w, fresh)
	if p.Sharded {
		e.Shards.add(w.Shards, [columns]float64{p.tolerated(errorColumn), p.tolerated(slowColumn)})
	}
	if e.Metrics == nil {
		e.Metrics = map[string]*metricData{}
	}
	for _, m := range p.Metrics {
		if e.Metrics[m.Name] == nil {
			e.Metrics[m.Name] = &metricData{}
		}
		if m.Kind.Source() == Queries && began < p.Warmup {
			continue // A query does not tell what young pods did.
		}
		e.Metrics[m.Name].add(p, m, w, fresh, e.Past)
	}
}

// metricData is the evidence of one metric.
type metricData struct {
	// Tests has one entry, or one per histogram bound.
	Tests []*test `json:"tests,omitempty"`
	// NoData says why the last window had no data; Unknown is how many requests of either side finished
	// in windows without data.
	NoData  string `json:"noData,omitempty"`
	Unknown sides  `json:"unknown,omitzero"`
	// Untold counts the requests of either side in other windows that are not known to be bad or good.
	// Concealed is why a Pass would not hold if they were bad.
	Untold    sides  `json:"untold,omitzero"`
	Concealed string `json:"-"`
	// Crossed means that the comparison is decided, even if it is too early for a verdict. Failed and
	// Warned are final.
	Crossed bool           `json:"crossed,omitempty"`
	Failed  verdict.Reason `json:"failed,omitempty"`
	Warned  bool           `json:"warned,omitempty"`
	// Young is what young pods and shards did.
	Young *cold `json:"young,omitempty"`
	// Differing is the odds ratio that a Fail needs because pods differ, or may, if all else suffices for
	// one. Worse means that the latest part of the run is worse than tolerated.
	Differing float64 `json:"differing,omitempty"`
	Worse     bool    `json:"worse,omitempty"`
	// P and Same come from the permutation test: P for the canary being worse than tolerated, Same
	// whether it was shown not to be.
	P    *float64 `json:"p,omitempty"`
	Same bool     `json:"same,omitempty"`
	// Outage is the current one of the canary, if any.
	Outage outage `json:"outage,omitzero"`
	// Answers is set if the metric compares status codes.
	Answers *answers `json:"answers,omitempty"`
}

// sides holds a number for each side.
type sides struct {
	Canary   float64 `json:"canary,omitempty"`
	Baseline float64 `json:"baseline,omitempty"`
}

// test counts one kind of bad request.
type test struct {
	Bound    float64 `json:"bound,omitempty"`
	Canary   tally   `json:"canary"`
	Baseline tally   `json:"baseline"`
	// Alone is the canary's tally in windows in which the baseline kept the limit, because what hits
	// both is not the canary's fault.
	Alone alone `json:"alone"`
	// Shared is the canary's tally at the baseline's rate of each window. A plain sum would make an
	// outage of both look worse on the side with more of the requests at that time.
	Shared tally `json:"shared"`
	Odds   *odds `json:"odds"`
	// Recent is the baseline's tally of the last minutes.
	Recent recent `json:"recent,omitzero"`
	// Clusters of bad requests, for a comparison by requests.
	Clusters clusters `json:"clusters,omitzero"`
	// Course is how the comparison went on.
	Course halves `json:"course,omitzero"`
	// Excess is how the canary compares with what is tolerated, and Latest the same minute by minute.
	Excess excess  `json:"excess,omitzero"`
	Latest minutes `json:"latest,omitzero"`
	// Marks are taken at the late starts that have come.
	Marks []mark `json:"marks,omitempty"`
}

func (d *metricData) add(p Plan, m Metric, w Window, fresh ShardWindow, before past) {
	if d.Tests == nil {
		d.Tests = m.Kind.kind().tests(m, w)
	}
	canary, youngC, lackC := d.grown(p, m, w.Canary, w.Young.Canary, fresh.Canary)
	baseline, youngB, lackB := d.grown(p, m, w.Baseline, w.Young.Baseline, fresh.Baseline)
	if lackC == "" && lackB == "" {
		d.addYoung(m, youngC, youngB, baseline)
	}
	d.NoData = ""
	kind := m.Kind.kind()
	if lackC == "" {
		d.Untold.Canary += whole(kind.untold(w.Canary)-kind.untold(w.Young.Canary), 0).N
	}
	if lackB == "" {
		d.Untold.Baseline += whole(kind.untold(w.Baseline)-kind.untold(w.Young.Baseline), 0).N
	}
	if lackC != "" {
		d.NoData = "canary: " + lackC
		d.Unknown.Canary += whole(kind.requests(m, w.Canary)-kind.requests(m, w.Young.Canary), 0).N
	}
	if lackB != "" {
		d.NoData = "baseline: " + lackB
		d.Unknown.Baseline += whole(kind.requests(m, w.Baseline)-kind.requests(m, w.Young.Baseline), 0).N
	}
	if kind.traits().codes {
		d.note(m, w, before)
	}
	relative := p.levels(m).relative
	switch {
	case !relative || !kind.traits().failures || d.Failed != "": // What has failed keeps what failed it.
	case lackC != "" || lackB != "":
		d.Outage = outage{}
	default:
		all := canary[0]
		all.add(youngC[0])
		d.Outage.add(table{canary: canary[0], baseline: baseline[0]}, all, w.To.Sub(w.From))
	}
	for i, t := range d.Tests {
		var both table
		if lackC == "" {
			both.canary = canary[i]
			t.Canary.add(canary[i])
		}
		if lackB == "" {
			both.baseline = baseline[i]
			t.Baseline.add(baseline[i])
			t.Recent.add(baseline[i], w.To.Sub(w.From))
		}
		alone := both.canary
		if m.Limit > 0 && both.baseline.K >= excuse && both.baseline.rate() > m.Limit {
			alone = tally{}
		}
		t.Alone.add(m, alone, w.To.Sub(w.From))
		t.Latest.add(t.Excess, w.To.Sub(w.From).Seconds())
		if lackC == "" && lackB == "" {
			t.Excess.add(m, both)
			if both.baseline.N > 0 {
				t.Shared.add(tally{N: both.canary.N, K: both.canary.N * both.baseline.rate()})
			}
			if relative {
				t.Clusters.add(m, both, w.To.Sub(w.From), before.spread(m, t.Bound))
			}
			t.Course.add(both, w.To.Sub(w.From))
			if relative || m.limited() {
				t.Clusters.watch(d.pods(m, i, w.Pods))
			}
			for _, stratum := range strata(p, m, w, both) {
				t.Odds.add(stratum)
			}
		}
	}
}

// excuse is how many of the baseline's requests must fail before they count as evidence about it.
const excuse = 2

// strata returns the strata of a window. During a handover the shards that both sides handled are a
// stratum of their own, because neither side is at fault for requests that wait.
func strata(p Plan, m Metric, w Window, all table) []table {
	at, byShard := m.Kind.kind().column(m)
	if !p.Sharded || !w.Unsettled || !byShard {
		return []table{all}
	}
	var moving table
	for _, s := range w.Shards {
		if s.Canary.Finished > 0 && s.Baseline.Finished > 0 {
			moving.canary.add(s.Canary.tally(at))
			moving.baseline.add(s.Baseline.tally(at))
		}
	}
	rest := table{
		canary:   whole(all.canary.N-moving.canary.N, all.canary.K-moving.canary.K),
		baseline: whole(all.baseline.N-moving.baseline.N, all.baseline.K-moving.baseline.K),
	}
	return []table{moving, rest}
}
