// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"
	"time"
)

// EnvironmentResult is the outcome of folding a snapshot into the memory of an environment.
type EnvironmentResult struct {
	Memory      EnvironmentMemory
	Transitions []Transition
	// WakeAt, if not zero, is when the same snapshot must be evaluated again.
	WakeAt time.Time
	// Unsure is as in Result.
	Unsure time.Time
}

// How long a change must look complete.
const (
	// settleClear applies if the object says for which generation its conditions hold. Cluster API 1.10 looks
	// finished for 0.1 s between the upgrades of control plane and workers, and 1.13 for a second after a pool
	// is added.
	settleClear = 5 * time.Second
	// settleDoubtful applies if it does not: a controller that has not seen the change yet leaves the conditions
	// as they were.
	settleDoubtful = 30 * time.Second
)

// waitChange is the wait for a change that looks complete.
const waitChange Wait = "change"

// BaselineEnvironment returns the memory of an environment that predates our first observation. It announces
// nothing: only later changes are events.
func BaselineEnvironment(s EnvironmentSnapshot) EnvironmentResult {
	b := environmentBuilder{m: EnvironmentMemory{Announced: true, Baselined: true}, s: s}
	b.waits = &b.m.Waits
	b.observe()
	b.take()
	b.m.Created = s.Ready || s.EverReady
	for _, kind := range environmentIncidents {
		if s.Trouble[kind] != nil && b.concerns(kind) {
			b.open(kind, &Episode{})
		}
	}
	return b.result()
}

// NextEnvironment folds one snapshot, observed at the given time, into the memory. A memory that knows nothing
// of an excluded object stays as it is.
func NextEnvironment(rules Rules, m EnvironmentMemory, s EnvironmentSnapshot, at time.Time) EnvironmentResult {
	if m.Removed {
		return EnvironmentResult{Memory: m}
	}
	b := environmentBuilder{
		rules: rules, m: m.clone(), s: s, at: m.journalTime(at),
		timing: timing{now: at, unconfirmed: s.Unconfirmed},
	}
	b.waits = &b.m.Waits
	if s.Gone {
		b.gone()
		return b.result()
	}
	if s.Excluded && !m.Announced {
		return EnvironmentResult{Memory: m}
	}
	b.observe()
	if s.Excluded {
		b.m.Waits, b.m.AwaitedSince = nil, time.Time{}
		return b.result()
	}
	if m.Excluded {
		b.take() // what changed meanwhile was not to be announced
	}
	b.appeared()
	b.created()
	b.modified()
	b.trouble()
	return b.result()
}

// ReplayEnvironment announces the present state again, for new sources.
func ReplayEnvironment(m EnvironmentMemory, at time.Time) EnvironmentResult {
	b := environmentBuilder{m: m.clone(), at: m.journalTime(at)}
	b.waits = &b.m.Waits
	if m.Created && !m.Removed && !m.Excluded && !m.Observed {
		b.emit(Transition{Type: EnvironmentCreated, Reason: ReasonReplay, Links: m.Last.link(LinkPath)})
	}
	return b.result()
}

// environmentBuilder is the state of one fold. Each of its steps announces one kind of transition.
type environmentBuilder struct {
	rules Rules
	m     EnvironmentMemory
	s     EnvironmentSnapshot
	timing
	// at is the journaled time.
	at  time.Time
	out []Transition
}

func (b *environmentBuilder) result() EnvironmentResult {
	return EnvironmentResult{Memory: b.m, Transitions: b.out, WakeAt: b.wake, Unsure: b.unsure}
}

func (b *environmentBuilder) observe() {
	s := b.s
	b.m.Version, b.m.Generation = s.Version, s.Generation
	b.m.Annotations, b.m.Labels = s.Annotations, s.Labels
	b.m.Excluded, b.m.Kept, b.m.Observed = s.Excluded, s.Kept, s.Observed
	// While it is being deleted, references may vanish before the resources.
	if len(s.Resources) > 0 || !s.Resting {
		b.m.Resources = s.Resources[:min(len(s.Resources), MaxResources)]
	}
	if !b.m.Created {
		b.take()
	}
	b.m.Environment.ID = s.Environment.ID
}

// take takes over what is declared, without announcing it.
func (b *environmentBuilder) take() {
	b.m.Environment, b.m.Declared = b.s.Environment, b.s.Declared
}

// emit numbers a transition and fills in the common fields.
func (b *environmentBuilder) emit(t Transition) TransitionRef {
	b.m.Sequence++
	b.m.LastTime = b.at
	t.Sequence, t.Time = b.m.Sequence, b.at
	t.Generation, t.Annotations = b.m.Generation, b.m.Annotations
	if t.Environment == nil {
		t.Environment = &EnvironmentDetails{}
	}
	t.Environment.Environment = b.m.Environment
	if t.Chain == 0 {
		t.Chain = t.Sequence
	}
	b.out = append(b.out, t)
	return TransitionRef{Sequence: t.Sequence, Time: t.Time, Type: t.Type}
}

// milestone emits a transition that later ones link to.
func (b *environmentBuilder) milestone(t Transition) {
	t.Links = b.m.Last.link(LinkPath)
	ref := b.emit(t)
	b.m.Last = &ref
}

// appeared announces that the provider has been asked for an environment.
func (b *environmentBuilder) appeared() {
	if b.m.Announced {
		return
	}
	b.m.Announced = true
	if b.m.Observed {
		return
	}
	switch b.m.Environment.Provider {
	case ProviderClusterAPI:
		b.milestone(Transition{Type: ClusterAPIClusterCreated})
	case ProviderCrossplane:
		b.milestone(Transition{Type: CrossplaneClusterCreated})
	}
}

// created announces that the environment is ready for the first time.
func (b *environmentBuilder) created() {
	if b.m.Created {
		return
	}
	if !b.s.Ready {
		delete(b.m.Waits, waitReady)
		return
	}
	if !b.over(b.since(waitReady, time.Time{}, b.rules.Stabilization), b.rules.Stabilization) {
		return
	}
	delete(b.m.Waits, waitReady)
	b.m.Created = true
	if b.m.Observed {
		return
	}
	t := Transition{Type: EnvironmentCreated}
	if b.m.Last != nil {
		t.Chain = b.m.Last.Sequence
	}
	b.milestone(t)
}

// modified announces a change once it is in place.
func (b *environmentBuilder) modified() {
	if !b.m.Created {
		return
	}
	changed := b.m.differs(b.s)
	if !b.s.Settled || b.s.Resting {
		delete(b.m.Waits, waitChange)
		return
	}
	if len(changed) == 0 {
		delete(b.m.Waits, waitChange)
		b.complete()
		return
	}
	limit := settleClear
	if b.s.Doubtful {
		limit = settleDoubtful
	}
	if !b.over(b.since(waitChange, time.Time{}, limit), limit) {
		return
	}
	delete(b.m.Waits, waitChange)
	previous := b.m.Environment
	b.complete()
	b.milestone(
		Transition{Type: EnvironmentModified, Environment: &EnvironmentDetails{Previous: &previous, Changed: changed}},
	)
}

// complete takes over what is in place. What cannot be read at the moment stays as it was.
func (b *environmentBuilder) complete() {
	was := b.m.Environment
	b.take()
	for _, field := range []struct {
		is  *string
		was string
	}{
		{&b.m.Environment.Version, was.Version},
		{&b.m.Environment.Region, was.Region},
		{&b.m.Environment.URL, was.URL},
		{&b.m.Environment.Class, was.Class},
	} {
		if *field.is == "" {
			*field.is = field.was
		}
	}
}

// concerns reports whether an incident can happen at this stage of the environment's life.
func (b *environmentBuilder) concerns(kind Incident) bool {
	return (kind == EnvironmentNotCreated) != b.m.Created
}

// trouble announces incidents that have lasted for their limit, and their end.
func (b *environmentBuilder) trouble() {
	if b.s.Resting {
		for _, kind := range environmentIncidents {
			delete(b.m.Waits, incidentWait(kind))
		}
		b.m.AwaitedSince = time.Time{}
		return
	}
	for _, kind := range environmentIncidents {
		now, episode := b.s.Trouble[kind], b.m.Episodes[kind]
		switch {
		case slices.Contains(b.s.Unsure, kind):
		case now == nil || !b.concerns(kind):
			delete(b.m.Waits, incidentWait(kind))
			if kind == EnvironmentNotCreated {
				b.m.AwaitedSince = time.Time{}
			}
			if episode != nil {
				b.resolve(kind, episode, "")
			}
		case episode == nil:
			b.await(kind, *now)
		}
	}
}

// await announces trouble once it has lasted for its limit.
func (b *environmentBuilder) await(kind Incident, why Trouble) {
	limit := b.rules.limit(kind)
	if limit <= 0 {
		return
	}
	var since time.Time
	if kind == EnvironmentNotCreated {
		since = b.awaited(incidentWait(kind), &b.m.AwaitedSince, limit)
	} else {
		since = b.since(incidentWait(kind), b.now, limit)
	}
	if !b.over(since, limit) {
		return
	}
	delete(b.m.Waits, incidentWait(kind))
	since = since.UTC().Truncate(time.Microsecond)
	ref := b.emit(Transition{
		Type: IncidentDetected, Links: b.m.Last.link(LinkPath),
		Incident: &IncidentDetails{Kind: kind, Opened: b.m.Sequence + 1, Since: since, Trouble: why},
	})
	b.open(kind, &Episode{Since: since, Detected: &ref})
}

func (b *environmentBuilder) open(kind Incident, e *Episode) {
	if b.m.Episodes == nil {
		b.m.Episodes = map[Incident]*Episode{}
	}
	b.m.Episodes[kind] = e
}

// resolve ends an episode. The end is announced only if the start was.
func (b *environmentBuilder) resolve(kind Incident, e *Episode, reason string) {
	delete(b.m.Episodes, kind)
	if len(b.m.Episodes) == 0 {
		b.m.Episodes = nil
	}
	if e.Detected == nil {
		return
	}
	b.emit(Transition{
		Type: IncidentResolved, Reason: reason, Links: e.Detected.link(LinkPath), Chain: e.Detected.Sequence,
		Incident: &IncidentDetails{Kind: kind, Opened: e.Detected.Sequence, Since: e.Since},
	})
}

// gone announces that the environment is deleted, unless only its object is.
func (b *environmentBuilder) gone() {
	b.m.Removed, b.m.Waits = true, nil
	if b.m.Excluded || b.m.Kept {
		return
	}
	for _, kind := range environmentIncidents {
		if e := b.m.Episodes[kind]; e != nil {
			b.resolve(kind, e, ReasonEnvironmentDeleted)
		}
	}
	if b.m.Created || b.m.Baselined {
		b.milestone(Transition{
			Type:        EnvironmentDeleted,
			Environment: &EnvironmentDetails{Beneath: b.s.Beneath, BeneathReason: b.s.BeneathReason},
		})
	}
}
