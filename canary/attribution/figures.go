package attribution

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

// AllEntities stands for all entity types together.
const AllEntities = ""

// Figures is what is known of a Service at one moment. NoData lists what is missing.
type Figures struct {
	Service   types.NamespacedName
	Stateful  bool
	Revisions []RevisionFigures
	// NeverStarted counts requests that entered and that no entity started; nil if unknown.
	NeverStarted *float64
	NoData       []NoData
	// Rejected counts rejected samples by reason.
	Rejected map[string]float64
}

// RevisionFigures are the figures of one Revision. Nil is unknown.
type RevisionFigures struct {
	Revision
	// Handled counts finished requests by outcome. If outcomes are unknown, it holds only
	// mapping.Unknown.
	Handled   map[string]float64
	Durations *Histogram
	// Bounds are the bounds that durations can be judged by. It is set even if some of the fixed
	// bounds, and so Durations, are missing.
	Bounds []float64
	// EnteredAt counts handled requests by the name of the Revision where they entered; empty if the
	// application does not export it.
	EnteredAt map[string]float64
	// Entered counts requests by class of the status code (2xx to 5xx, unknown).
	Entered map[string]float64
	// Share is its share of what all Revisions handled in the last ShareWindow.
	Share *float64
	// Unaccounted counts requests that started and did not finish within the request timeout. It always
	// includes those of removed pods.
	Unaccounted *float64
	// Open counts requests that had started and not finished at each pod's last reading. It is nil if
	// an entity type does not count starts, or a serving pod was never read.
	Open     *float64
	Restarts map[string]float64
	// Pods is the number of existing pods. Unanswering counts ready ones whose last two scrapes failed.
	// Members counts those in the stateful cluster.
	Pods        int
	Unanswering int
	Members     *float64
	// Shards counts the shards that its pods hold, by entity type or for AllEntities.
	Shards map[string]float64
	// ScrapeAge is the age of the oldest last reading among its pods.
	ScrapeAge *time.Duration
}

// figures builds the Figures of one moment.
func (c *serviceCounts) figures(key types.NamespacedName, now time.Time) Figures {
	f := Figures{Service: key, Rejected: map[string]float64{}}
	for _, reason := range Rejections() {
		f.Rejected[reason] = c.rejected[reason]
	}
	byRevision := map[types.UID][]*pod{}
	for _, p := range c.pods {
		byRevision[p.facts.Revision] = append(byRevision[p.facts.Revision], p)
	}
	revisions := slices.Clone(c.facts.Revisions)
	slices.SortFunc(revisions, func(a, b Revision) int { return cmp.Compare(a.Name, b.Name) })
	entered, started := 0.0, 0.0
	for _, r := range revisions {
		t := c.tallies[r.UID]
		if t == nil {
			continue
		}
		f.Stateful = f.Stateful || r.Stateful
		v := revisionView{Revision: r, tally: t, pods: byRevision[r.UID], counted: c.counted, now: now}
		out := v.figures()
		f.Revisions = append(f.Revisions, out)
		f.NoData = append(f.NoData, v.missing...)
		entered, started = entered+t.Forwarded, started+t.Started
	}
	c.shares(&f)
	if f.Stateful {
		c.neverStarted(&f, entered, started)
	}
	return f
}

// neverStarted compares the entered requests with those that entities started.
func (c *serviceCounts) neverStarted(f *Figures, entered, started float64) {
	lacks := func(reason Reason) {
		f.NoData = append(f.NoData, NoData{Figure: "unaccounted_requests", Reason: reason})
	}
	switch {
	case !c.facts.OneCall:
		lacks(CallsPerRequestUnknown)
	case started == 0 && entered > 0, c.startsUnknown():
		lacks(StartedUnknown) // nothing counts starts, or nothing ever started, which shows as errors
	default:
		n := max(0, entered-started)
		f.NeverStarted = &n
	}
}

// startsUnknown reports whether some pod has an entity type that does not count starts.
func (c *serviceCounts) startsUnknown() bool {
	for _, p := range c.pods {
		if p.app.startsUnknown() {
			return true
		}
	}
	return false
}

// shares sets the observed share of every Revision.
func (c *serviceCounts) shares(f *Figures) {
	handled := c.handled()
	by, all, ok := c.split.since(handled)
	for i := range f.Revisions {
		r := &f.Revisions[i]
		missing := Reason("")
		switch {
		case r.Handled == nil:
			continue // already missing, with a reason
		case !ok:
			missing = WindowTooShort
		case all <= 0:
			missing = NoRequests
		default:
			share := by[r.UID] / all
			r.Share = &share
		}
		if missing != "" {
			f.NoData = append(f.NoData, NoData{Revision: r.UID, Figure: "handled_share_ratio", Reason: missing})
		}
	}
}

// handled returns what every Revision has handled so far.
func (c *serviceCounts) handled() map[types.UID]float64 {
	out := map[types.UID]float64{}
	for _, r := range c.facts.Revisions {
		if t := c.tallies[r.UID]; t != nil {
			out[r.UID] = sum(t.Handled(r.Stateful))
		}
	}
	return out
}

// Handled returns finished requests by outcome, counted where they are handled if the Revision is
// stateful and where they enter otherwise.
func (t *Tally) Handled(stateful bool) map[string]float64 {
	if stateful {
		return t.Finished
	}
	out := map[string]float64{}
	for code, n := range t.Entered {
		if code[0] != '1' {
			out[outcomeOf(code)] += n
		}
	}
	if t.Cut > 0 {
		out[mapping.Error] += t.Cut
	}
	return out
}

// outcomeOf returns the outcome of a request that was handled where it entered. A client's mistake is
// not a failure of the Revision.
func outcomeOf(code string) string {
	switch {
	case code == "504":
		return mapping.Timeout
	case code[0] == '5':
		return mapping.Error
	case code[0] >= '2' && code[0] <= '4':
		return mapping.OK
	}
	return mapping.Unknown
}

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

func (v *revisionView) figures() RevisionFigures {
	out := RevisionFigures{Revision: v.Revision, Pods: len(v.pods), Restarts: map[string]float64{}}
	for _, reason := range Restarts() {
		out.Restarts[reason] = v.tally.Restarts[reason]
	}
	if v.Required == nil {
		v.lacks("traffic_share_ratio", NoSplit)
	}
	out.Entered = v.entered()
	switch {
	case v.Misdeclared:
		v.lacks("handled_requests_total", Misdeclared)
		v.lacks("handled_request_duration_seconds", Misdeclared)
	case !v.Stateful && out.Entered == nil:
		v.lacks("handled_requests_total", v.noEntry())
	case v.Stateful && !v.counted:
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
	if v.Stateful {
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

func (v *revisionView) unanswering() int {
	n := 0
	for _, p := range v.pods {
		missed := p.appMissed
		if !v.Stateful {
			missed = p.entryMissed
		}
		if p.facts.Ready && missed >= missedForGood {
			n++
		}
	}
	return n
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
	if out[mapping.Unknown] > 0 {
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

// outcomes returns the handled requests by outcome. An application that never exports an outcome does
// not have zero errors.
func (v *revisionView) outcomes() map[string]float64 {
	by := v.tally.Handled(v.Stateful)
	unknown := by[mapping.Unknown]
	told, known := v.tellsOutcomes()
	known = known || by[mapping.OK]+by[mapping.Error]+by[mapping.Timeout] > 0
	if unknown > 0 || told && !known {
		v.missing = append(v.missing, NoData{Revision: v.UID, Figure: "handled_requests_total", Reason: OutcomesUnknown, Detail: v.hint()})
		if !known {
			return map[string]float64{mapping.Unknown: unknown}
		}
	}
	out := map[string]float64{mapping.OK: by[mapping.OK], mapping.Error: by[mapping.Error], mapping.Timeout: by[mapping.Timeout]}
	if unknown > 0 {
		out[mapping.Unknown] = unknown
	}
	return out
}

// tellsOutcomes reports whether existing pods export finished requests, and whether any of them exports
// outcomes, even with a count of zero.
func (v *revisionView) tellsOutcomes() (told, known bool) {
	if !v.Stateful {
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
	buckets, total := v.tally.Durations(v.Stateful)
	if len(buckets) == 0 {
		if sum(v.tally.Handled(v.Stateful)) > 0 {
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
		if !p.app.counts(mapping.Started) {
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
	return v.tally.Started == 0 && v.tally.Total() > 0 || slices.ContainsFunc(v.pods, func(p *pod) bool { return p.app.startsUnknown() })
}

// open returns the open requests of all pods.
func (v *revisionView) open() *float64 {
	total := 0.0
	for _, p := range v.pods {
		switch {
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
		if !v.Stateful {
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
