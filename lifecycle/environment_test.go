// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/json"
	"slices"
	"testing"
	"time"
)

// provisioned is a story of one environment.
type provisioned struct {
	t     *testing.T
	rules Rules
	m     EnvironmentMemory
	at    time.Time
	wake  time.Time
}

func provision(t *testing.T) *provisioned {
	t.Helper()
	return &provisioned{t: t, rules: DefaultRules, at: time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC)}
}

// see folds a snapshot a second later, and returns the transitions, which must be of these types.
func (p *provisioned) see(s EnvironmentSnapshot, want ...Type) []Transition {
	p.t.Helper()
	return p.seeAt(s, p.at.Add(time.Second), want...)
}

func (p *provisioned) seeAt(s EnvironmentSnapshot, at time.Time, want ...Type) []Transition {
	p.t.Helper()
	p.at = at
	r := NextEnvironment(p.rules, p.m, s, at)
	var got []Type
	for i, t := range r.Transitions {
		got = append(got, t.Type)
		if t.Environment == nil {
			p.t.Errorf("transition %s does not describe its environment", t.Type)
		}
		if t.Sequence != p.m.Sequence+int64(i)+1 {
			p.t.Errorf("transition %s has number %d after %d", t.Type, t.Sequence, p.m.Sequence)
		}
	}
	if !slices.Equal(got, want) {
		p.t.Fatalf("announced %v, want %v", got, want)
	}
	p.wake = r.WakeAt
	// The next process knows only what the ledger has, and this one's waits.
	raw, err := json.Marshal(r.Memory.Stored(nil))
	if err != nil {
		p.t.Fatal(err)
	}
	waits := r.Memory.Waits
	p.m = EnvironmentMemory{}
	if err := json.Unmarshal(raw, &p.m); err != nil {
		p.t.Fatal(err)
	}
	if p.m.Waits = waits; !p.m.Covers(r.Memory) {
		p.t.Errorf("stored %+v, of %+v", p.m, r.Memory)
	}
	return r.Transitions
}

// settle folds a snapshot until it is settled.
func (p *provisioned) settle(s EnvironmentSnapshot, want ...Type) []Transition {
	p.t.Helper()
	p.see(s)
	return p.seeAt(s, p.wake, want...)
}

func declared() EnvironmentSnapshot {
	return EnvironmentSnapshot{
		Version: "1", Generation: 1, Declared: "v1beta2:a",
		Environment: Environment{Provider: ProviderClusterAPI, Version: "v1.35.0", Pools: []string{"md-0"}},
		Trouble:     map[Incident]*Trouble{EnvironmentNotCreated: {Reason: "NotAvailable"}},
	}
}

func inUse(s EnvironmentSnapshot) EnvironmentSnapshot {
	s.Ready, s.Settled, s.Trouble = true, true, nil
	return s
}

func created(t *testing.T) *provisioned {
	t.Helper()
	p := provision(t)
	p.see(declared(), ClusterAPIClusterCreated)
	p.see(inUse(declared()), EnvironmentCreated)
	return p
}

func TestEnvironmentIsCreatedOnce(t *testing.T) {
	t.Parallel()
	p := provision(t)
	first := p.see(declared(), ClusterAPIClusterCreated)[0]
	p.see(declared())
	ready := p.see(inUse(declared()), EnvironmentCreated)[0]
	if ready.Chain != first.Sequence || len(ready.Links) != 1 || ready.Links[0].Sequence != first.Sequence {
		t.Errorf("created is not linked to what asked for it: %+v", ready)
	}
	p.see(declared())
	p.see(inUse(declared()))
}

func TestProvidersOfEnvironments(t *testing.T) {
	t.Parallel()
	s := declared()
	s.Environment.Provider = ProviderCrossplane
	provision(t).see(inUse(s), CrossplaneClusterCreated, EnvironmentCreated)
	s.Environment.Provider = ""
	provision(t).see(inUse(s), EnvironmentCreated)
	s.Observed = true
	s.Environment.Provider = ProviderCrossplane
	provision(t).see(inUse(s))
}

func TestModifiedWaitsUntilTheChangeIsInPlace(t *testing.T) {
	t.Parallel()
	p := created(t)
	next := inUse(declared())
	next.Generation, next.Environment.Version = 2, "v1.36.0"
	next.Settled = false
	p.see(next)
	next.Ready = false
	p.see(next)
	next = inUse(next)
	got := p.settle(next, EnvironmentModified)[0]
	if e := got.Environment; e.Version != "v1.36.0" || e.Previous.Version != "v1.35.0" || !slices.Equal(e.Changed, []string{"version"}) {
		t.Errorf("%+v", e)
	}
	p.see(next)
}

func TestDoubtfulChangeMustLast(t *testing.T) {
	t.Parallel()
	p := created(t)
	next := inUse(declared())
	next.Declared, next.Doubtful = "v1beta2:b", true
	p.see(next)
	if want := p.at.Add(settleDoubtful); !p.wake.Equal(want) {
		t.Fatalf("wakes at %s, want %s", p.wake, want)
	}
	unsettled := next
	unsettled.Settled = false
	p.see(unsettled)
	p.see(next)
	p.seeAt(next, p.wake, EnvironmentModified)
}

func TestWhatIsNoModification(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*EnvironmentSnapshot){
		"another version of the API": func(s *EnvironmentSnapshot) { s.Declared, s.Environment.Pools = "v1beta1:b", []string{"a", "b"} },
		"unknown version":            func(s *EnvironmentSnapshot) { s.Environment.Version = "" },
		"an endpoint becomes known":  func(s *EnvironmentSnapshot) { s.Environment.URL = "https://10.0.0.1:6443" },
		"generation":                 func(s *EnvironmentSnapshot) { s.Generation = 7 },
		"note":                       func(s *EnvironmentSnapshot) { s.Environment.Note = "a note" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := created(t)
			next := inUse(declared())
			change(&next)
			p.see(next)
			if p.m.Environment.Version != "v1.35.0" {
				t.Errorf("the version was forgotten: %+v", p.m.Environment)
			}
			// It is compared with what is known by now.
			next.Environment.Version = "v1.36.0"
			p.settle(next, EnvironmentModified)
		})
	}
}

func TestDeletedEnvironment(t *testing.T) {
	t.Parallel()
	p := created(t)
	got := p.see(EnvironmentSnapshot{Gone: true, Beneath: BeneathUnknown}, EnvironmentDeleted)[0]
	if got.Environment.Beneath != BeneathUnknown || got.Environment.Version != "v1.35.0" {
		t.Errorf("%+v", got.Environment)
	}
	p.see(EnvironmentSnapshot{Gone: true})

	kept := inUse(declared())
	kept.Kept = true
	p = created(t)
	p.see(kept)
	p.see(EnvironmentSnapshot{Gone: true})

	p = provision(t) // it was never ready
	p.see(declared(), ClusterAPIClusterCreated)
	p.see(EnvironmentSnapshot{Gone: true})
}

func TestBaselineOfEnvironments(t *testing.T) {
	t.Parallel()
	p := provision(t)
	p.m = BaselineEnvironment(inUse(declared())).Memory
	p.see(inUse(declared()))
	p.see(EnvironmentSnapshot{Gone: true}, EnvironmentDeleted)

	p.m = BaselineEnvironment(declared()).Memory // it is being created
	p.see(inUse(declared()), EnvironmentCreated)

	was := declared()
	was.EverReady = true
	was.Trouble = map[Incident]*Trouble{EnvironmentOutage: {Reason: "Down"}}
	p.m = BaselineEnvironment(was).Memory
	p.seeAt(was, p.at.Add(24*time.Hour))
	p.see(inUse(declared())) // neither its start nor its end
}

func TestExcludedEnvironments(t *testing.T) {
	t.Parallel()
	p := provision(t)
	out := inUse(declared())
	out.Excluded = true
	p.see(out)
	if !p.m.Covers(EnvironmentMemory{}) {
		t.Errorf("an object that was never announced is remembered: %+v", p.m)
	}
	p = created(t)
	p.see(out)
	out.Environment.Version = "v1.36.0"
	p.see(out)
	in := out
	in.Excluded = false
	p.see(in) // what changed meanwhile is not announced
	in.Environment.Version = "v1.37.0"
	p.settle(in, EnvironmentModified)
	p.see(out)
	p.see(EnvironmentSnapshot{Gone: true})
}

func TestIncidentsOfEnvironments(t *testing.T) {
	t.Parallel()
	p := created(t)
	bad := inUse(declared())
	bad.Ready, bad.Settled = false, false
	bad.Trouble = map[Incident]*Trouble{EnvironmentOutage: {Reason: "NotAvailable", Message: "a message"}, EnvironmentNotCreated: {Reason: "NotAvailable"}}
	p.see(bad)
	resting := bad
	resting.Resting = true
	p.seeAt(resting, p.at.Add(time.Hour)) // paused
	p.see(bad)
	began := p.at
	unsure := bad
	unsure.Trouble, unsure.Unsure = nil, []Incident{EnvironmentOutage}
	p.see(unsure)
	got := p.seeAt(bad, began.Add(p.rules.EnvironmentOutageAfter), IncidentDetected)[0]
	if i := got.Incident; i.Kind != EnvironmentOutage || i.Reason != "NotAvailable" || !i.Since.Equal(began) || i.Opened != got.Sequence {
		t.Errorf("%+v", i)
	}
	p.seeAt(unsure, p.at.Add(time.Hour))
	end := p.see(inUse(declared()), IncidentResolved)[0]
	if end.Incident.Opened != got.Sequence || end.Chain != got.Sequence {
		t.Errorf("%+v", end)
	}

	p.see(bad)
	p.seeAt(bad, p.wake, IncidentDetected)
	if end := p.see(EnvironmentSnapshot{Gone: true}, IncidentResolved, EnvironmentDeleted)[0]; end.Reason != ReasonEnvironmentDeleted {
		t.Errorf("%+v", end)
	}
}

func TestEnvironmentThatIsNotCreated(t *testing.T) {
	t.Parallel()
	p := provision(t)
	p.see(declared(), ClusterAPIClusterCreated)
	began := p.at
	p.m.Waits = nil // another process leads
	p.see(declared())
	if want := began.Add(p.rules.EnvironmentNotCreatedAfter); !p.wake.Equal(want) {
		t.Fatalf("wakes at %s, want %s", p.wake, want)
	}
	p.seeAt(declared(), p.wake, IncidentDetected)
	p.see(inUse(declared()), EnvironmentCreated, IncidentResolved)

	// The next process leads when it is due.
	p = provision(t)
	p.see(declared(), ClusterAPIClusterCreated)
	began = p.at
	p.m.Waits = nil
	if got := p.seeAt(declared(), began.Add(time.Hour), IncidentDetected)[0]; !got.Incident.Since.Equal(began) {
		t.Errorf("since %s, want %s", got.Incident.Since, began)
	}

	// While it is paused or left out, it is not late.
	paused, excluded := declared(), declared()
	paused.Resting, excluded.Excluded = true, true
	for _, meanwhile := range []EnvironmentSnapshot{paused, excluded} {
		p = provision(t)
		p.see(declared(), ClusterAPIClusterCreated)
		p.see(meanwhile)
		p.seeAt(meanwhile, p.at.Add(time.Hour))
		p.see(declared())
		began = p.at
		if got := p.wake.Sub(began); got != p.rules.EnvironmentNotCreatedAfter {
			t.Errorf("wakes after %s", got)
		}
		again := p.m
		p.see(declared())
		if p.m.Waits = again.Waits; !p.m.Covers(again) {
			t.Errorf("it is written again that it is awaited: %+v, after %+v", p.m, again)
		}
		p.m.Waits = nil // another process leads
		p.see(declared())
		if want := began.Add(p.rules.EnvironmentNotCreatedAfter); !p.wake.Equal(want) {
			t.Errorf("another leader wakes at %s, want %s", p.wake, want)
		}
		p.m.Waits = nil
		p.seeAt(declared(), began.Add(time.Hour), IncidentDetected)

		// Another process leads before the first has seen that it goes on.
		p = provision(t)
		p.see(declared(), ClusterAPIClusterCreated)
		p.see(meanwhile)
		p.m.Waits = nil
		p.seeAt(declared(), p.at.Add(time.Hour))
		if got := p.wake.Sub(p.at); got != p.rules.EnvironmentNotCreatedAfter {
			t.Errorf("the leader after a pause wakes after %s", got)
		}
	}

	// An entry of an earlier release does not say since when.
	p = provision(t)
	p.see(declared(), ClusterAPIClusterCreated)
	p.m.Waits, p.m.AwaitedSince = nil, time.Time{}
	p.seeAt(declared(), p.at.Add(time.Hour))
	if got := p.wake.Sub(p.at); got != p.rules.EnvironmentNotCreatedAfter {
		t.Errorf("after an upgrade, it wakes after %s", got)
	}
}

func TestResourcesAreRememberedToTheEnd(t *testing.T) {
	t.Parallel()
	p := created(t)
	s := inUse(declared())
	s.Resources = []ResourceRef{{APIVersion: "nop.crossplane.io/v1alpha1", Kind: "NopResource", Name: "a"}}
	p.see(s)
	s.Resting, s.Resources = true, nil
	p.see(s)
	if len(p.m.Resources) != 1 {
		t.Errorf("forgot the resources of an object that is being deleted: %+v", p.m)
	}
}

func TestReplayOfEnvironments(t *testing.T) {
	t.Parallel()
	p := created(t)
	if r := ReplayEnvironment(p.m, p.at); len(r.Transitions) != 1 || r.Transitions[0].Type != EnvironmentCreated || r.Transitions[0].Reason != ReasonReplay {
		t.Errorf("%+v", r.Transitions)
	}
	for name, m := range map[string]EnvironmentMemory{
		"not ready yet": {Announced: true}, "only observed": {Announced: true, Created: true, Observed: true},
	} {
		if r := ReplayEnvironment(m, p.at); len(r.Transitions) != 0 {
			t.Errorf("%s: %+v", name, r.Transitions)
		}
	}
}
