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

// Figures are what is known of a Service at one moment. What is missing stands in
// NoData.
type Figures struct {
	Service   types.NamespacedName
	Stateful  bool
	Revisions []RevisionFigures
	// NeverStarted is how many requests entered that no entity began; nil if unknown.
	NeverStarted *float64
	NoData       []NoData
	// Rejected samples, by reason.
	Rejected map[string]float64
}

// RevisionFigures are those of one Revision. Nil is unknown.
type RevisionFigures struct {
	Revision
	// Handled counts finished requests by outcome. Without outcomes there is only
	// mapping.Unknown.
	Handled   map[string]float64
	Durations *Histogram
	// Bounds are those by which its durations can be judged, also where they are not all
	// of the fixed ones and Durations is missing.
	Bounds []float64
	// EnteredAt is what it handled by the name of the Revision where it entered; empty
	// where the application does not say so.
	EnteredAt map[string]float64
	// Entered counts requests by class of the status code (2xx to 5xx, unknown).
	Entered map[string]float64
	// Share of what all Revisions handled in the last ShareWindow.
	Share *float64
	// Unaccounted were started and not finished within the request time-out; those
	// of pods that are gone are among them for good.
	Unaccounted *float64
	// Open were started and are not finished, as the pods said when they were read last. Nil
	// where some entity type does not count what is started, or where a pod that serves was never read.
	Open     *float64
	Restarts map[string]float64
	// Pods that exist; Unanswering of them are ready, and could not be read when that
	// was tried last, nor the time before; Members are in the stateful cluster.
	Pods        int
	Unanswering int
	Members     *float64
	// Shards that its pods hold, by entity type, or AllEntities.
	Shards map[string]float64
	// ScrapeAge is how long ago the pod was read whose last reading is oldest.
	ScrapeAge *time.Duration
}

// figures puts together what is known at a moment.
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

// neverStarted compares what entered with what entities began to handle.
func (c *serviceCounts) neverStarted(f *Figures, entered, started float64) {
	lacks := func(reason Reason) {
		f.NoData = append(f.NoData, NoData{Figure: "unaccounted_requests", Reason: reason})
	}
	switch {
	case !c.facts.OneCall:
		lacks(CallsPerRequestUnknown)
	case started == 0 && entered > 0, c.startsUnknown():
		lacks(StartedUnknown) // nobody counts it; or nothing was ever started, which errors tell
	default:
		n := max(0, entered-started)
		f.NeverStarted = &n
	}
}

// startsUnknown says that some pod has an entity type that does not count what begins.
func (c *serviceCounts) startsUnknown() bool {
	for _, p := range c.pods {
		if p.app.startsUnknown() {
			return true
		}
	}
	return false
}

// shares fills in the real share of every Revision.
func (c *serviceCounts) shares(f *Figures) {
	handled := c.handled()
	by, all, ok := c.split.since(handled)
	for i := range f.Revisions {
		r := &f.Revisions[i]
		missing := Reason("")
		switch {
		case r.Handled == nil:
			continue // that is missing already, and says why
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

// handled is what every Revision has handled in all.
func (c *serviceCounts) handled() map[types.UID]float64 {
	out := map[types.UID]float64{}
	for _, r := range c.facts.Revisions {
		if t := c.tallies[r.UID]; t != nil {
			out[r.UID] = sum(t.Handled(r.Stateful))
		}
	}
	return out
}

// Handled is what was finished, by outcome: where it was handled if the Revision is
// stateful, else where it entered.
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

// outcomeOf a request that was handled where it entered. What the client did wrong
// is no failure of the Revision.
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

// view is one Revision, as it is looked at.
type revisionView struct {
	Revision
	tally   *Tally
	pods    []*pod
	counted bool
	now     time.Time
	missing []NoData
	// bounds by which durations can be judged, where they differ from the fixed ones.
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

// missedForGood is how many readings in a row must fail before a pod counts as one
// that does not answer: what a single one lacked the next one makes up for.
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

// entered is what entered at the Revision, by class; nil if nobody tells. 1xx are
// left out: 101 is a connection, not a request.
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

// noEntry is why nothing is known of what entered.
func (v *revisionView) noEntry() Reason {
	if slices.ContainsFunc(v.pods, func(p *pod) bool { return p.entryTold }) {
		return EntryMetricsUnavailable
	}
	return NotRead
}

// outcomes of what was handled. An application that never tells an outcome has not
// had zero errors.
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

// tellsOutcomes says whether pods that are there tell of finished requests, and whether
// any of them tells how they ended, be it zero times.
func (v *revisionView) tellsOutcomes() (told, known bool) {
	if !v.Stateful {
		return false, false // the entry's codes say so by themselves
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

// hint is why outcomes are not known, as the pods' series are.
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

// mostHints bounds what is said of one Revision.
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
		// A pod that is younger than the time-out has none that is overdue; one
		// that is only watched since may.
		short = slices.ContainsFunc(v.pods, func(p *pod) bool { return p.old && v.now.Sub(p.since) < timeout })
		if short {
			v.lacks("unaccounted_requests", WindowTooShort)
			return nil
		}
	}
	return &total
}

// startsUnknown says that what begins is not counted, or not of every entity type.
func (v *revisionView) startsUnknown() bool {
	return v.tally.Started == 0 && v.tally.Total() > 0 || slices.ContainsFunc(v.pods, func(p *pod) bool { return p.app.startsUnknown() })
}

// open requests of all pods.
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

// shards that the pods say they hold; if they say nothing, those that the cluster
// says they hold, of all entity types.
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

// age of the oldest last reading among the pods that are ready.
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
