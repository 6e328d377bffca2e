// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
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
}

// RevisionFigures are the figures of one Revision. Nil is unknown. Nothing in it may be changed.
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
	// Pods is the number of existing pods. Unanswering counts those that serve and whose last two scrapes failed,
	// or had none of the counters of before; those whose counters of outcomes fall again and again; and those that
	// have never counted what they should have handled. Members counts those in the stateful cluster.
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
	f := Figures{Service: key, Revisions: make([]RevisionFigures, 0, len(c.facts.Revisions))}
	var byRevision map[types.UID][]*pod
	for _, p := range c.pods {
		if byRevision == nil {
			byRevision = map[types.UID][]*pod{}
		}
		byRevision[p.facts.Revision] = append(byRevision[p.facts.Revision], p)
	}
	revisions := slices.Clone(c.facts.Revisions)
	slices.SortFunc(revisions, func(a, b Revision) int { return cmp.Compare(a.Name, b.Name) })
	entered, started := 0.0, 0.0
	for _, r := range revisions {
		t := c.tally(r.UID)
		if t == nil {
			continue
		}
		f.Stateful = f.Stateful || r.Stateful != ""
		v := revisionView{Revision: r, tally: t, pods: byRevision[r.UID], counted: c.counted, now: now}
		out := v.figures()
		f.Revisions = append(f.Revisions, out)
		f.NoData = append(f.NoData, v.missing...)
		entered, started = entered+t.Forwarded, started+t.Started
	}
	c.shares(&f, now)
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
func (c *serviceCounts) shares(f *Figures, now time.Time) {
	by, all, ok := map[types.UID]float64(nil), 0.0, true
	if !c.idle {
		by, all, ok = c.split.since(now, c.handled())
	}
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
			out[r.UID] = sum(t.Handled(r.Stateful != ""))
		}
	}
	return out
}
