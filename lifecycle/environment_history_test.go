// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

// ordeal is a random history of one environment, and of the processes that watch it. It knows nothing of how
// decisions are made, only what they must never be.
type ordeal struct {
	*rand.Rand
	t     *testing.T
	seed  uint64
	rules Rules
	at    time.Time

	now      EnvironmentSnapshot
	waiting  EnvironmentMemory // with the waits of this process
	stored   []byte            // what the ledger has
	told     []Transition
	log      []string
	baseline bool
	// died says that a write was lost, with what the process had seen.
	died bool

	open map[Incident]Transition
	// since is when each kind of trouble was first seen without a break, and in place since when the present
	// declaration was, without a break.
	since   map[Incident]time.Time
	inPlace time.Time
	form    string
}

func (o *ordeal) fail(format string, args ...any) {
	o.t.Helper()
	o.t.Fatalf("seed %d: %s\n%v", o.seed, fmt.Sprintf(format, args...), o.log)
}

func (o *ordeal) chance(percent int) bool { return o.IntN(100) < percent }

// change changes the object as providers and users do, in any order.
func (o *ordeal) change() {
	s := &o.now
	s.Trouble, s.Unsure = nil, nil
	s.Version += "1"
	switch o.IntN(9) {
	case 0, 1:
		s.Environment.Version = []string{"", "v1.34.0", "v1.35.0", "v1.36.0"}[o.IntN(4)]
	case 2:
		s.Declared = []string{"", "v1:a", "v1:b", "v2:a", "v2:b"}[o.IntN(5)]
	case 3:
		s.Environment.Pools = [][]string{nil, {"a"}, {"a", "b"}}[o.IntN(3)]
	case 4:
		s.Resting = o.chance(20)
	case 5:
		s.Excluded = o.chance(15)
	case 6:
		s.Kept, s.Observed = o.chance(20), o.chance(10)
	case 7:
		s.Labels = map[string]string{"a": []string{"a", "b", "c"}[o.IntN(3)]}
	}
	s.Ready = o.chance(70)
	s.Settled, s.Doubtful = s.Ready && o.chance(70), o.chance(30)
	for _, kind := range environmentIncidents {
		switch {
		case kind == EnvironmentNotCreated && !s.Ready, kind != EnvironmentNotCreated && o.chance(25):
			if s.Trouble == nil {
				s.Trouble = map[Incident]*Trouble{}
			}
			s.Trouble[kind] = &Trouble{Reason: "Broken"}
		case o.chance(15):
			s.Unsure = append(s.Unsure, kind)
		}
	}
}

func (o *ordeal) recall() EnvironmentMemory {
	var m EnvironmentMemory
	if o.stored != nil {
		if err := json.Unmarshal(o.stored, &m); err != nil {
			o.fail("%v", err)
		}
	}
	return m
}

// watch keeps what the truth was, before the fold sees it.
func (o *ordeal) watch() {
	s := o.now
	for _, kind := range environmentIncidents {
		if s.Trouble[kind] == nil && !slices.Contains(s.Unsure, kind) || s.Resting || s.Excluded {
			delete(o.since, kind)
		} else if _, ok := o.since[kind]; !ok {
			o.since[kind] = o.at
		}
	}
	form := fmt.Sprintf("%v %v", s.Settled && !s.Resting && !s.Excluded, s.Gone)
	if form != o.form {
		o.form, o.inPlace = form, o.at
	}
}

// fold folds the present state. If the process dies, it does so before or after the write.
func (o *ordeal) fold() (wake time.Time) {
	o.watch()
	before, _ := json.Marshal(o.waiting)
	had := o.recall()
	var r EnvironmentResult
	if o.baseline && o.stored == nil {
		r = BaselineEnvironment(o.now)
	} else {
		r = NextEnvironment(o.rules, o.waiting, o.now, o.at)
	}
	if after, _ := json.Marshal(o.waiting); string(after) != string(before) {
		o.fail("a fold changed the memory that it was given: %s to %s", before, after)
	}
	o.log = append(o.log, fmt.Sprintf("\n%s ready=%v settled=%v resting=%v excluded=%v kept=%v gone=%v %s %q %v:", o.at.Format(time.TimeOnly), o.now.Ready, o.now.Settled, o.now.Resting,
		o.now.Excluded, o.now.Kept, o.now.Gone, o.now.Environment.Version, o.now.Declared, o.now.Trouble))
	save := len(r.Transitions) > 0 || !r.Memory.Covers(o.waiting) || o.stored == nil && (!o.now.Excluded || r.Memory.Announced)
	if save && o.chance(5) {
		o.log = append(o.log, "died before the write")
		o.died = true
		o.waiting = had
		return o.at.Add(time.Second)
	}
	o.waiting = r.Memory
	if save {
		raw, err := json.Marshal(r.Memory.Stored(nil))
		if err != nil {
			o.fail("%v", err)
		}
		o.stored = raw
		if back := o.recall(); !back.Covers(r.Memory) {
			o.fail("stored %+v of %+v", back, r.Memory)
		}
	}
	for _, t := range r.Transitions {
		o.log = append(o.log, string(t.Type))
		o.check(had, t)
		o.told = append(o.told, t)
	}
	if o.chance(10) {
		o.log = append(o.log, "another process leads")
		o.waiting = o.recall()
		return o.at.Add(time.Second)
	}
	return r.WakeAt
}

func (o *ordeal) count(typ Type) (n int) {
	for _, t := range o.told {
		if t.Type == typ {
			n++
		}
	}
	return n
}

// check says what must be true of a transition, whatever happened.
func (o *ordeal) check(had EnvironmentMemory, t Transition) {
	last := Transition{}
	if len(o.told) > 0 {
		last = o.told[len(o.told)-1]
	}
	switch {
	case t.Sequence != last.Sequence+1:
		o.fail("%s has number %d after %d", t.Type, t.Sequence, last.Sequence)
	case t.Time.Before(last.Time):
		o.fail("%s goes back in time", t.Type)
	case o.count(EnvironmentDeleted) > 0:
		o.fail("%s after the end", t.Type)
	case o.now.Excluded && !o.now.Gone:
		o.fail("%s of an excluded object", t.Type)
	}
	for _, l := range t.Links {
		if l.Sequence >= t.Sequence || l.Sequence < 1 {
			o.fail("%s links to %d", t.Type, l.Sequence)
		}
	}
	switch t.Type {
	case ClusterAPIClusterCreated:
		if len(o.told) > 0 || o.baseline || o.now.Observed {
			o.fail("declared again, or before us, or by another")
		}
	case EnvironmentCreated:
		if o.count(EnvironmentCreated) > 0 || !o.now.Ready || o.now.Observed {
			o.fail("created twice, or not ready, or not by us")
		}
	case EnvironmentModified:
		o.checkModified(had, t)
	case EnvironmentDeleted:
		if !o.now.Gone || o.count(EnvironmentCreated) == 0 && !had.Created && !o.baseline || had.Kept || had.Excluded || len(o.open) > 0 {
			o.fail("deleted: %v", o.open)
		}
	case IncidentDetected:
		kind := t.Incident.Kind
		limit := o.rules.limit(kind)
		if since, ok := o.since[kind]; !ok || (kind != EnvironmentNotCreated || !o.died) && o.at.Sub(since) < limit {
			o.fail("%s is detected, since %s", kind, since)
		}
		if _, is := o.open[kind]; is {
			o.fail("%s is detected twice", kind)
		}
		o.open[kind] = t
	case IncidentResolved:
		if d, is := o.open[t.Incident.Kind]; !is || d.Sequence != t.Incident.Opened {
			o.fail("%s is resolved, and is not open", t.Incident.Kind)
		}
		delete(o.open, t.Incident.Kind)
	}
}

func (o *ordeal) checkModified(had EnvironmentMemory, t Transition) {
	switch e := t.Environment; {
	case !had.Created || !o.now.Settled || o.now.Resting:
		o.fail("modified: %+v", had)
	case len(e.Changed) == 0 || e.Previous == nil || reflect.DeepEqual(*e.Previous, e.Environment) && !slices.Contains(e.Changed, "spec"):
		o.fail("modified without a change: %+v", e)
	case o.at.Sub(o.inPlace) < settleClear:
		o.fail("modified after %s", o.at.Sub(o.inPlace))
	}
}

// calm lets everything be well, and time pass.
func (o *ordeal) calm() {
	o.now.Excluded, o.now.Resting, o.now.Ready, o.now.Settled, o.now.Trouble, o.now.Unsure = false, false, true, true, nil, nil
	o.now.Kept, o.now.Observed = false, false
	for range 200 {
		wake := o.fold()
		if wake.IsZero() {
			return
		}
		o.at = wake
	}
	o.fail("it is never decided")
}

func (o *ordeal) run() {
	for range 5 + o.IntN(60) {
		if o.chance(60) {
			o.change()
		}
		o.at = o.at.Add([]time.Duration{100 * time.Millisecond, time.Second, 6 * time.Second, time.Minute, time.Hour}[o.IntN(5)])
		if wake := o.fold(); !wake.IsZero() && o.chance(60) && wake.After(o.at) {
			o.at = wake
			o.fold()
		}
	}
	o.calm()
	switch m := o.waiting; {
	case !m.Created:
		o.fail("it was never created")
	case len(o.open) > 0 || len(m.Episodes) > 0:
		o.fail("open to the end: %v", o.open)
	case sameForm(m.Declared, o.now.Declared) && len(m.differs(o.now)) > 0:
		o.fail("a change is not announced: %+v", m)
	}
	told := len(o.told)
	o.waiting = o.recall()
	o.at = o.at.Add(48 * time.Hour)
	if r := NextEnvironment(o.rules, o.waiting, o.now, o.at); len(r.Transitions) > 0 || !r.Memory.Covers(o.waiting) {
		o.fail("the same state, seen again by another process, is news: %v, memory %+v, was %+v", r.Transitions, r.Memory, o.waiting)
	}
	// The end comes from the ledger alone, as after an outage.
	o.now = EnvironmentSnapshot{Gone: true}
	for !o.recall().Removed {
		o.fold()
	}
	o.waiting = o.recall()
	o.fold()
	if o.count(EnvironmentDeleted) != 1 || len(o.told) != told+1 {
		o.fail("deleted %d times", o.count(EnvironmentDeleted))
	}
}

// Whatever happens to an environment and to the processes that watch it, nothing is invented, doubled or lost.
func TestRandomHistoriesOfEnvironments(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1_000) {
		o := &ordeal{
			Rand: rand.New(rand.NewPCG(seed, 15)), t: t, seed: seed, rules: DefaultRules, at: time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC),
			now: declared(), open: map[Incident]Transition{}, since: map[Incident]time.Time{},
		}
		o.baseline = o.chance(20)
		o.run()
	}
}
