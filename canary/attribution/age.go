// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"time"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

// What makes a pod slow or failing at its start (compilers, caches, pools) is new with each process and
// passes with the requests. So a pod's age counts from the start of its process, from when the pod became
// ready, or from its first request, whichever is latest. A pod that later is not ready for a while keeps
// its age.

// birth is what the age of a pod counts from.
type birth struct {
	// started is zero if it is not known; ready and asked are zero as long as the process is not ready
	// and has no request.
	started, ready, asked time.Time
}

// learn takes new facts.
func (b *birth) learn(p Pod) {
	if p.Started.After(b.started) {
		b.started, b.ready = p.Started, time.Time{}
	}
	if p.Ready && b.ready.IsZero() {
		b.ready = later(p.ReadySince, b.started)
	}
}

// ask takes a reading that shows requests. idle is the reading before it, which showed none; zero if there
// was no such reading, so that the pod may have had requests for as long as it was ready.
func (b *birth) ask(idle time.Time) {
	if b.asked.IsZero() {
		b.asked = later(later(idle, b.started), longAgo)
	}
}

// longAgo is a moment before any pod.
var longAgo = time.Unix(0, 0)

// since is when the age began; zero if that is not known. A process without requests has no age yet.
func (b *birth) since(now time.Time) time.Time {
	switch {
	case b.started.IsZero():
		return time.Time{}
	case b.ready.IsZero() || b.asked.IsZero():
		return now
	}
	return later(later(b.started, b.ready), b.asked)
}

// inherit takes what another process knew of the age of the same pod. It may have seen the first request.
func (b *birth) inherit(since time.Time) { b.asked = later(b.asked, since) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// hadRequests reports whether any request was counted.
func (p *process) hadRequests() bool {
	for k, m := range p.last {
		switch k.Figure {
		case mapping.Finished, mapping.Started, mapping.EntryHTTP, mapping.EntryServing:
			if m.value > 0 {
				return true
			}
		}
	}
	return false
}

const (
	// mostGone limits the pods that are gone and whose last counts are kept, goneKept for how long. Who
	// looks at windows longer than that does not learn what those pods did.
	mostGone = 32
	goneKept = 5 * time.Minute
)

// goneRaw is what a pod had exported when it was last seen.
type goneRaw struct {
	raw
	left time.Time
}

// depart keeps the last counts of a pod that is gone.
func (c *serviceCounts) depart(p *pod, now time.Time) {
	if len(c.gone) >= mostGone {
		return
	}
	c.gone[p.facts.UID] = goneRaw{raw: p.raw(now), left: now}
}

// raw returns what a pod has exported.
func (p *pod) raw(now time.Time) raw {
	return raw{
		Revision: p.facts.Revision, Restarts: p.facts.Restarts, App: p.app.counters(), Entry: p.entry.counters(),
		Since: p.birth.since(now), young: !p.old,
		Failed: p.facts.Failed, facts: p.facts,
	}
}
