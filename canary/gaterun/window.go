// SPDX-License-Identifier: Apache-2.0

package gaterun

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

// windowBuilder converts the counts since the last analysis to a window.
type windowBuilder struct {
	service *Service
	delta   attribution.Delta
	// overdue holds, by Revision, the requests that became overdue in this window.
	overdue map[types.UID]float64
	figures attribution.Figures
	// from is when the window began, and warmup the age below which pods are young.
	from   time.Time
	warmup time.Duration
}

// window describes both Revisions. The caller sets its end.
func (b windowBuilder) window(canary, baseline types.UID) judge.Window {
	w := judge.Window{
		From: b.from, Canary: b.arm(canary), Baseline: b.arm(baseline), Required: -1,
		Unsettled: b.service.Moving, UnsettledUnknown: b.service.MovingUnknown,
	}
	if r, ok := b.service.Revision(canary); ok && b.service.Effective {
		w.Required = float64(b.service.Traffic.Percent(r.Name)) / 100
	}
	all, entered := 0.0, 0.0
	for uid, tally := range b.delta.Revisions {
		all += total(b.handled(uid))
		entered += total(tally.Handled(false))
	}
	if entered > 0 {
		w.Entered = w.Canary.Entered / entered
	}
	if all > 0 {
		w.Handled = w.Canary.Finished / all
	}
	w.Planned = b.planned(canary)
	w.Shards = b.shards(canary, baseline)
	w.Pods = b.pods(baseline)
	w.Lives = b.lives(canary, baseline)
	w.Young = judge.Young{Canary: b.young(canary), Baseline: b.young(baseline)}
	for _, r := range b.figures.Revisions {
		if r.UID == canary {
			w.Unanswering, w.RequestTimeout = r.Unanswering, r.Timeout
		}
	}
	if w.RequestTimeout <= 0 {
		w.RequestTimeout = attribution.DefaultTimeout
	}
	return w
}

func (b windowBuilder) stateful(uid types.UID) bool {
	r, _ := b.service.Revision(uid)
	return r.Stateful != ""
}

// handled returns the requests that a Revision finished, by outcome.
func (b windowBuilder) handled(uid types.UID) map[string]float64 {
	tally := b.delta.Revisions[uid]
	return tally.Handled(b.stateful(uid))
}

func (b windowBuilder) arm(uid types.UID) judge.Arm {
	tally, by := b.delta.Revisions[uid], b.handled(uid)
	a := judge.Arm{
		Finished: total(by), Errors: by[mapping.Error] + by[mapping.Timeout],
		Untold:           by[mapping.Unknown],
		OutcomesUnknown:  b.untold(uid, "handled_requests_total", attribution.OutcomesUnknown, by),
		DurationsUnknown: b.untimed(uid),
		Restarts:         total(tally.Restarts), StartedUnknown: true,
	}
	entered := tally.Handled(false)
	a.Entered, a.EntryErrors = total(entered), entered[mapping.Error]+entered[mapping.Timeout]
	a.EntryUntold = entered[mapping.Unknown]
	a.EntryUnknown = b.untold(uid, "entry_requests_total", attribution.EntryOutcomesUnknown, entered)
	_, a.EntryTook = tally.Durations(false)
	a.Codes = tally.Codes()
	a.NoCodes = b.missing(uid, "entry_requests_total") == string(attribution.EntryMetricsUnavailable)
	buckets, took := tally.Durations(b.stateful(uid))
	if b.stateful(uid) {
		a.Started, a.Unaccounted, a.Took = tally.Started, tally.Lost+b.overdue[uid], took
		lacks := b.missing(uid, "unaccounted_requests")
		a.Open, a.OpenUnknown = b.open(uid)
		a.StartedUnknown = lacks == string(attribution.StartedUnknown) ||
			a.OpenUnknown != "" && tally.Started == 0 && a.Finished > 0
		if lacks == string(attribution.WindowTooShort) {
			a.OverdueUnknown = lacks
		}
	}
	above, why := slower(buckets, a.Finished)
	if a.Above = above; a.DurationsUnknown == "" {
		a.DurationsUnknown = why
	}
	a.Untimed = max(0, a.Finished-buckets.Total())
	return a
}

// untold returns why the outcomes of a Revision's requests are unknown. That they were once does not matter, only that
// they are in this window, and of how many requests.
func (b windowBuilder) untold(uid types.UID, figure string, reason attribution.Reason, by map[string]float64) string {
	if why := b.missing(uid, figure); why != "" && why != string(reason) {
		return why
	}
	if by[mapping.Unknown] > attribution.MostUnknown*total(by) {
		return string(reason)
	}
	return ""
}

// open returns the open requests of a Revision, or why they are unknown.
func (b windowBuilder) open(uid types.UID) (n float64, why string) {
	for _, r := range b.figures.Revisions {
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

// missing returns why a figure of a Revision is missing; empty if it is present. NotRead
// means nothing for a Revision without pods.
func (b windowBuilder) missing(uid types.UID, figure string) string {
	pods := slices.ContainsFunc(
		b.figures.Revisions,
		func(r attribution.RevisionFigures) bool { return r.UID == uid && r.Pods > 0 },
	)
	for _, n := range b.figures.NoData {
		if n.Revision == uid && n.Figure == figure && (pods || n.Reason != attribution.NotRead) {
			return string(n.Reason)
		}
	}
	return ""
}

// untimed returns why a Revision's durations are missing. Other buckets than the
// exported ones are fine, provided that the threshold is one of them.
func (b windowBuilder) untimed(uid types.UID) string {
	if why := b.missing(uid, "handled_request_duration_seconds"); why != string(attribution.BucketsDiffer) {
		return why
	}
	return ""
}

// lacking returns why the handled requests of one side are unknown; empty if they are known. A window without requests
// does not change it.
func lacking(w judge.Window, was string) string {
	why := cmp.Or(w.Canary.OutcomesUnknown, w.Baseline.OutcomesUnknown)
	if why == "" && w.Canary.Finished+w.Baseline.Finished == 0 && was == string(attribution.OutcomesUnknown) {
		return was
	}
	return why
}

// seen describes what the application exports where a figure is missing for a reason.
func (b windowBuilder) seen(reason string) string {
	for _, n := range b.figures.NoData {
		if string(n.Reason) == reason && n.Detail != "" {
			return n.Detail
		}
	}
	return ""
}

// slower returns how many requests took longer than each bound of a cumulative histogram, or why that
// is unknown. The limit for requests without a duration, such as aborted ones, is that for requests without an outcome.
// The judge makes sure that they do not hide what a Pass rests on.
func slower(buckets attribution.Buckets, finished float64) (above map[float64]float64, why string) {
	switch {
	case len(buckets) == 0 && finished > 0:
		return nil, string(attribution.DurationsUnknown)
	case len(buckets) > 0 && !buckets.Complete():
		return nil, string(attribution.BucketsDiffer)
	case finished-buckets.Total() > attribution.MostUnknown*finished:
		return nil, string(attribution.DurationsUnknown)
	}
	// The caller checks that its threshold is one of the bounds.
	return buckets.Above(), ""
}

func (b windowBuilder) shards(canary, baseline types.UID) map[string]judge.ShardWindow {
	out := map[string]judge.ShardWindow{}
	for id, s := range b.grownShards(canary) {
		name := shardName(id)
		w := out[name]
		w.Canary = counts(s)
		out[name] = w
	}
	for id, s := range b.grownShards(baseline) {
		name := shardName(id)
		w := out[name]
		w.Baseline = counts(s)
		out[name] = w
	}
	maps.DeleteFunc(out, func(_ string, w judge.ShardWindow) bool { return w == judge.ShardWindow{} })
	return out
}

// before returns what each shard did before the canary had any. Later history exists for
// the baseline's shards only, so it cannot be compared.
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

// shardName is unique in a Service: it escapes the separator in both parts.
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
