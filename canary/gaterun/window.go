package gaterun

import (
	"maps"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

// counted is what was counted of a Service since the last look.
type counted struct {
	service *Service
	delta   attribution.Delta
	// overdue are requests by Revision that were not answered in time, and were not
	// told as such before.
	overdue map[types.UID]float64
	figures attribution.Figures
}

// window puts together what happened to both sides. The times are the caller's.
func (c counted) window(canary, baseline types.UID) judge.Window {
	w := judge.Window{Canary: c.arm(canary), Baseline: c.arm(baseline), Required: -1, Unsettled: c.service.Moving}
	if r, ok := c.service.revision(canary); ok && c.service.Effective {
		w.Required = float64(r.Percent) / 100
	}
	all := 0.0
	for uid := range c.delta.Revisions {
		all += total(c.handled(uid))
	}
	if all > 0 {
		w.Handled = w.Canary.Finished / all
	}
	w.Shards = c.shards(canary, baseline)
	w.Pods = c.pods(baseline)
	for _, r := range c.figures.Revisions {
		if r.UID == canary {
			w.Unanswering, w.RequestTimeout = r.Unanswering, r.Timeout
		}
	}
	if w.RequestTimeout <= 0 {
		w.RequestTimeout = attribution.DefaultTimeout
	}
	return w
}

func (c counted) stateful(uid types.UID) bool {
	r, _ := c.service.revision(uid)
	return r.Stateful
}

// handled is what a Revision finished, by outcome.
func (c counted) handled(uid types.UID) map[string]float64 {
	tally := c.delta.Revisions[uid]
	return tally.Handled(c.stateful(uid))
}

func (c counted) arm(uid types.UID) judge.Arm {
	tally, by := c.delta.Revisions[uid], c.handled(uid)
	a := judge.Arm{
		Finished: total(by), Errors: by[mapping.Error] + by[mapping.Timeout],
		OutcomesUnknown:  c.missing(uid, "handled_requests_total"),
		DurationsUnknown: c.untimed(uid),
		Restarts:         total(tally.Restarts), StartedUnknown: true,
	}
	entered := tally.Handled(false)
	a.Entered, a.EntryErrors = total(entered), entered[mapping.Error]+entered[mapping.Timeout]
	if a.EntryUnknown = c.missing(uid, "entry_requests_total"); entered[mapping.Unknown] > 0 && a.EntryUnknown == "" {
		a.EntryUnknown = string(attribution.EntryOutcomesUnknown)
	}
	buckets := tally.EntryBuckets
	if c.stateful(uid) {
		buckets = tally.Buckets
		a.Started, a.Unaccounted, a.Took = tally.Started, tally.Lost+c.overdue[uid], tally.DurationSum
		lacks := c.missing(uid, "unaccounted_requests")
		a.Open, a.OpenUnknown = c.open(uid)
		a.StartedUnknown = lacks == string(attribution.StartedUnknown) || a.OpenUnknown != "" && tally.Started == 0 && a.Finished > 0
		if lacks == string(attribution.WindowTooShort) {
			a.OverdueUnknown = lacks
		}
	}
	if by[mapping.Unknown] > 0 && a.OutcomesUnknown == "" {
		a.OutcomesUnknown = string(attribution.OutcomesUnknown)
	}
	above, why := slower(buckets, a.Finished)
	if a.Above = above; a.DurationsUnknown == "" {
		a.DurationsUnknown = why
	}
	return a
}

// open requests of a Revision, or why nobody knows.
func (c counted) open(uid types.UID) (n float64, why string) {
	for _, r := range c.figures.Revisions {
		if r.UID != uid {
			continue
		}
		if r.Open == nil {
			break
		}
		return *r.Open, ""
	}
	return 0, string(attribution.NotRead)
}

// missing is why a figure of a Revision is; empty if it is there. That no pod was
// read says nothing as long as there is none.
func (c counted) missing(uid types.UID, figure string) string {
	pods := slices.ContainsFunc(c.figures.Revisions, func(r attribution.RevisionFigures) bool { return r.UID == uid && r.Pods > 0 })
	for _, n := range c.figures.NoData {
		if n.Revision == uid && n.Figure == figure && (pods || n.Reason != attribution.NotRead) {
			return string(n.Reason)
		}
	}
	return ""
}

// untimed is why a Revision's durations are missing. That they have other buckets than
// the exported ones does not matter as long as the threshold is one of them.
func (c counted) untimed(uid types.UID) string {
	if why := c.missing(uid, "handled_request_duration_seconds"); why != string(attribution.BucketsDiffer) {
		return why
	}
	return ""
}

// lacking is why what one of both handles is not known; empty if it is.
func (c counted) lacking(both ...types.UID) string {
	for _, uid := range both {
		if why := c.missing(uid, "handled_requests_total"); why != "" {
			return why
		}
	}
	return ""
}

// seen is what an application said where a figure is missing for that reason.
func (c counted) seen(reason string) string {
	for _, n := range c.figures.NoData {
		if string(n.Reason) == reason && n.Detail != "" {
			return n.Detail
		}
	}
	return ""
}

// mostUntimed is the share of the requests of which nobody need say how long they took:
// those that were broken off, as a rule. Those of which nobody does are not fast.
const mostUntimed = 0.1

// slower is how many requests took longer than each bound of a cumulative histogram,
// or why nobody knows.
func slower(buckets map[float64]float64, finished float64) (above map[float64]float64, why string) {
	inf := math.Inf(1)
	all, whole := buckets[inf]
	switch {
	case len(buckets) == 0 && finished > 0:
		return nil, string(attribution.DurationsUnknown)
	case len(buckets) > 0 && !whole:
		return nil, string(attribution.BucketsDiffer)
	case finished-all > mostUntimed*finished:
		return nil, string(attribution.DurationsUnknown)
	}
	above = map[float64]float64{}
	most := 0.0
	for _, bound := range slices.Sorted(maps.Keys(buckets)) {
		// Samples that were refused may leave a bucket behind those below it.
		if most = max(most, buckets[bound]); bound != inf {
			above[bound] = max(0, max(all, most)-most)
		}
	}
	// Whether a threshold is among the bounds is for whoever judges by it.
	return above, ""
}

func (c counted) shards(canary, baseline types.UID) map[string]judge.ShardWindow {
	out := map[string]judge.ShardWindow{}
	for id, s := range c.delta.Revisions[canary].Shards {
		name := shardName(id)
		w := out[name]
		w.Canary = counts(s)
		out[name] = w
	}
	for id, s := range c.delta.Revisions[baseline].Shards {
		name := shardName(id)
		w := out[name]
		w.Baseline = counts(s)
		out[name] = w
	}
	maps.DeleteFunc(out, func(_ string, w judge.ShardWindow) bool { return w == judge.ShardWindow{} })
	return out
}

// before is what each shard had done before the canary had any of them, in words of the
// judge: what happened since then is known of the baseline's shards only.
func before(shards map[attribution.ShardKey]attribution.Shard) map[string]judge.Counts {
	if len(shards) == 0 {
		return nil
	}
	out := map[string]judge.Counts{}
	for id, s := range shards {
		out[shardName(id)] = counts(s)
	}
	return out
}

func counts(s attribution.Shard) judge.Counts {
	return judge.Counts{Finished: s.Finished(), Errors: s.Error + s.Timeout, Slow: s.Slow}
}

// shardName is unique in a Service. Neither part may look like the other.
func shardName(id attribution.ShardKey) string {
	escape := strings.NewReplacer("%", "%25", "/", "%2F")
	return escape.Replace(id.Entity) + "/" + escape.Replace(id.Shard)
}

func total[K comparable](m map[K]float64) float64 {
	all := 0.0
	for _, n := range m {
		all += n
	}
	return all
}
