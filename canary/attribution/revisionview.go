// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

// revisionView is one Revision with its pods and counts.
type revisionView struct {
	Revision
	tally   *Tally
	pods    []*pod
	counted bool
	now     time.Time
	missing []NoData
	// bounds that durations can be judged by, if they differ from the fixed ones.
	bounds []float64
}

func (v *revisionView) lacks(figure string, why Reason) {
	v.missing = append(v.missing, NoData{Revision: v.UID, Figure: figure, Reason: why})
}

// unharmed are the restarts of a Revision of which no pod has restarted or failed.
var unharmed = map[string]float64{RestartedOOM: 0, RestartedOther: 0, RestartedFailed: 0}

func (v *revisionView) figures() RevisionFigures {
	out := RevisionFigures{Revision: v.Revision, Pods: len(v.pods), Restarts: unharmed}
	if len(v.tally.Restarts) > 0 {
		out.Restarts = maps.Clone(unharmed)
		maps.Copy(out.Restarts, v.tally.Restarts)
	}
	if v.Required == nil {
		v.lacks("traffic_share_ratio", NoSplit)
	}
	out.Entered = v.entered()
	switch {
	case v.Misdeclared != "":
		v.lacks("handled_requests_total", InvalidAnnotations)
		v.lacks("handled_request_duration_seconds", InvalidAnnotations)
	case v.Stateful == "" && out.Entered == nil:
		v.lacks("handled_requests_total", v.noEntry())
	case v.Stateful != "" && !v.counted:
		why := NotRead
		if slices.ContainsFunc(v.pods, func(p *pod) bool { return !p.appAt.IsZero() }) {
			why = NothingCounted
		}
		v.lacks("handled_requests_total", why)
	default:
		out.Handled = v.outcomes()
		out.Durations = v.durations()
		out.Bounds = v.bounds
	}
	if v.Stateful != "" {
		out.EnteredAt = maps.Clone(v.tally.EnteredAt)
		out.Unaccounted, out.Open = v.unaccounted(), v.open()
		out.Members, out.Shards = v.ClusterMembers, v.shards()
	}
	out.ScrapeAge, out.Unanswering = v.age(), v.unanswering()
	return out
}

// missedForGood is how many scrapes in a row must fail before a pod counts as unanswering. A single
// failure loses nothing, because the next reading catches up.
const missedForGood = 2

// unanswering counts serving pods whose counts are not known. In a stateful cluster, a pod that is no longer ready
// still holds its shards.
func (v *revisionView) unanswering() int {
	n := 0
	for _, p := range v.pods {
		missed, serves, falls := p.appMissed, p.facts.Ready || p.app.read && p.facts.Running, p.appFalls
		if v.Stateful == "" {
			missed, serves, falls = p.entryMissed, p.facts.Ready, p.entryFalls
		}
		if serves && (missed >= missedForGood || falls.often()) || v.mute(p) {
			n++
		}
	}
	return n
}

const (
	// othersHandled is how many requests each of a Revision's other pods must have handled on average before a pod that
	// has never counted any seems to hide them. Until then, it may have had none: some applications export a counter with
	// its first request.
	othersHandled = 100
	// joinsWithin is how long after its beginning a pod is taken for a member of the cluster though it is not ready.
	joinsWithin = 5 * time.Minute
)

// mute reports whether a pod of a stateful cluster has never counted a request, although it should have handled some:
// others of its Revision did, and nothing says that it holds no shards.
func (v *revisionView) mute(p *pod) bool {
	joined := p.facts.Ready || p.facts.Running && v.now.Sub(p.since) >= joinsWithin
	if v.Stateful == "" || p.app.source != "" || !joined || p.shards != nil && sum(p.shards) == 0 {
		return false
	}
	tell := 0
	for _, other := range v.pods {
		if other.app.source != "" {
			tell++
		}
	}
	return tell > 0 && v.tally.Total()-p.others >= othersHandled*float64(tell)
}

// entered returns the requests that entered at the Revision, by class; nil if no pod exports them. It
// leaves out 1xx because 101 is a connection, not a request.
func (v *revisionView) entered() map[string]float64 {
	reads := slices.ContainsFunc(v.pods, func(p *pod) bool { return !p.entryAt.IsZero() })
	if !reads && len(v.tally.Entered) == 0 {
		v.lacks("entry_requests_total", v.noEntry())
		return nil
	}
	out := map[string]float64{"2xx": 0, "3xx": 0, "4xx": 0, "5xx": v.tally.Cut}
	for code, n := range v.tally.Entered {
		switch {
		case code == mapping.Unknown:
			out[mapping.Unknown] += n
		case code[0] != '1':
			out[code[:1]+"xx"] += n
		}
	}
	if out[mapping.Unknown] > MostUnknown*sum(out) {
		v.lacks("entry_requests_total", EntryOutcomesUnknown)
	}
	return out
}

// noEntry tells why the entered requests are unknown.
func (v *revisionView) noEntry() Reason {
	if slices.ContainsFunc(v.pods, func(p *pod) bool { return p.entryTold }) {
		return EntryMetricsUnavailable
	}
	return NotRead
}

// MostUnknown is the share of a Revision's requests whose outcome may be unknown. They are counted as such. One request
// over HTTP/2 would otherwise make a figure incomplete for as long as the Revision exists.
const MostUnknown = 0.1

// outcomes returns the handled requests by outcome. An application that never exports an outcome does
// not have zero errors.
func (v *revisionView) outcomes() map[string]float64 {
	by := v.tally.Handled(v.Stateful != "")
	unknown := by[mapping.Unknown]
	told, known := v.tellsOutcomes()
	known = known || by[mapping.OK]+by[mapping.Error]+by[mapping.Timeout] > 0
	if unknown > MostUnknown*sum(by) || told && !known {
		v.missing = append(v.missing, NoData{
			Revision: v.UID, Figure: "handled_requests_total", Reason: OutcomesUnknown,
			Detail: v.hint(),
		})
		if !known {
			return map[string]float64{mapping.Unknown: unknown}
		}
	}
	out := map[string]float64{
		mapping.OK: by[mapping.OK], mapping.Error: by[mapping.Error],
		mapping.Timeout: by[mapping.Timeout],
	}
	if unknown > 0 {
		out[mapping.Unknown] = unknown
	}
	return out
}

// tellsOutcomes reports whether existing pods export finished requests, and whether any of them exports
// outcomes, even with a count of zero.
func (v *revisionView) tellsOutcomes() (told, known bool) {
	if v.Stateful == "" {
		return false, false // the status codes at entry already carry the outcome
	}
	for _, p := range v.pods {
		for k := range p.app.last {
			if k.Figure == mapping.Finished {
				told, known = true, known || k.Outcome != mapping.Unknown
			}
		}
	}
	return told, known
}

// hint tells, from the pods' series, why outcomes are unknown.
func (v *revisionView) hint() string {
	var all []string
	for _, p := range v.pods {
		for _, h := range p.hints {
			if !slices.Contains(all, h) {
				all = append(all, h)
			}
		}
	}
	slices.Sort(all)
	return strings.Join(all[:min(len(all), mostHints)], "; ")
}

// mostHints limits the hints for one Revision.
const mostHints = 3

func (v *revisionView) durations() *Histogram {
	const figure = "handled_request_duration_seconds"
	buckets, total := v.tally.Durations(v.Stateful != "")
	if len(buckets) == 0 {
		if sum(v.tally.Handled(v.Stateful != "")) > 0 {
			v.lacks(figure, DurationsUnknown)
			return nil
		}
		return &Histogram{Buckets: zeros()}
	}
	h := &Histogram{Sum: total, Buckets: map[float64]uint64{}}
	for bound, n := range buckets.Rising() {
		if h.Count = uint64(n); slices.Contains(bounds, bound) {
			h.Buckets[bound] = uint64(n)
		}
	}
	if !buckets.Complete() {
		v.lacks(figure, BucketsDiffer)
		return nil
	}
	if len(h.Buckets) != len(bounds) {
		v.bounds = slices.Sorted(maps.Keys(h.Buckets))
		v.lacks(figure, BucketsDiffer)
		return nil
	}
	return h
}

func zeros() map[float64]uint64 {
	out := map[float64]uint64{}
	for _, b := range bounds {
		out[b] = 0
	}
	return out
}

func (v *revisionView) unaccounted() *float64 {
	timeout := v.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	if v.startsUnknown() {
		v.lacks("unaccounted_requests", StartedUnknown)
		return nil
	}
	total := v.tally.Lost
	short := false
	for _, p := range v.pods {
		if !p.app.counts(mapping.Started) || p.facts.Failed && p.facts.Disrupted {
			continue
		}
		n, ok := p.flight.overdue(v.now, timeout, p.app.counts(mapping.DurationSum))
		short = short || !ok
		total += n
	}
	if short && total == 0 {
		// A pod younger than the timeout has no overdue request. One that existed before the watch
		// began may have some.
		short = slices.ContainsFunc(v.pods, func(p *pod) bool { return p.old && v.now.Sub(p.since) < timeout })
		if short {
			v.lacks("unaccounted_requests", WindowTooShort)
			return nil
		}
	}
	return &total
}

// startsUnknown reports whether starts are not counted, or not for every entity type.
func (v *revisionView) startsUnknown() bool {
	return v.tally.Started == 0 && v.tally.Total() > 0 ||
		slices.ContainsFunc(v.pods, func(p *pod) bool { return p.app.startsUnknown() })
}

// open returns the open requests of all pods. Those of a pod that has ended never finish.
func (v *revisionView) open() *float64 {
	total := 0.0
	for _, p := range v.pods {
		switch {
		case p.facts.Failed:
		case p.app.counts(mapping.Started):
			total += p.app.open()
		case p.app.sum(mapping.Finished) > 0 || p.facts.Ready && !p.app.read:
			return nil
		}
	}
	if v.startsUnknown() {
		return nil
	}
	return &total
}

// shards returns the shards that the pods export; without any, the number that the cluster reports for
// all entity types.
func (v *revisionView) shards() map[string]float64 {
	var out map[string]float64
	for _, p := range v.pods {
		for entity, n := range p.shards {
			if out == nil {
				out = map[string]float64{}
			}
			out[entity] += n
		}
	}
	if out == nil && v.ClusterShards != nil {
		return map[string]float64{AllEntities: *v.ClusterShards}
	}
	return out
}

// age returns the age of the oldest last reading among the ready pods.
func (v *revisionView) age() *time.Duration {
	var oldest *time.Duration
	for _, p := range v.pods {
		if !p.facts.Ready {
			continue
		}
		last := p.appAt
		if v.Stateful == "" {
			last = p.entryAt
		}
		if last.IsZero() {
			last = p.since
		}
		if age := max(0, v.now.Sub(last)); oldest == nil || age > *oldest {
			oldest = &age
		}
	}
	return oldest
}
