// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

var start = time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)

// story folds snapshots one second apart and collects the announced transitions.
type story struct {
	t     *testing.T
	rules Rules
	m     Memory
	at    time.Time
	all   []Transition
	wake  time.Time
}

func newStory(t *testing.T) *story {
	t.Helper()
	return &story{t: t, rules: DefaultRules, at: start}
}

func (s *story) see(snap Snapshot, want ...Type) []Transition {
	s.t.Helper()
	return s.seeAt(snap, s.at.Add(time.Second), want...)
}

// seeAt also checks what holds for every fold: the same input gives the same output, and folding
// the same snapshot again announces nothing.
func (s *story) seeAt(snap Snapshot, at time.Time, want ...Type) []Transition {
	s.t.Helper()
	s.at = at
	before, err := json.Marshal(s.m)
	if err != nil {
		s.t.Fatal(err)
	}
	r := Next(s.rules, s.m, snap, at)
	if again := Next(s.rules, s.m, snap, at); !reflect.DeepEqual(r, again) {
		s.t.Fatalf("the same fold gave different results:\n%+v\n%+v", r, again)
	}
	if after, err := json.Marshal(s.m); err != nil || string(before) != string(after) {
		s.t.Fatalf("Next changed its argument (%v):\n%s\n%s", err, before, after)
	}
	var got []Type
	for i, tr := range r.Transitions {
		got = append(got, tr.Type)
		if wantSeq := s.m.Sequence + int64(i) + 1; tr.Sequence != wantSeq {
			s.t.Fatalf("%s has sequence %d, want %d", tr.Type, tr.Sequence, wantSeq)
		}
	}
	if !reflect.DeepEqual(got, want) {
		s.t.Fatalf("at %s: got %v, want %v", at.Format(time.TimeOnly), got, want)
	}
	if len(r.Missing) == 0 {
		if second := Next(s.rules, r.Memory, snap, at); len(second.Transitions) > 0 {
			s.t.Fatalf("a second fold of the same snapshot announced %+v", second.Transitions)
		}
	}
	s.m, s.wake = r.Memory, r.WakeAt
	s.all = append(s.all, r.Transitions...)
	return r.Transitions
}

func (s *story) last() Transition { return s.all[len(s.all)-1] }

// rev returns a Ready Revision; its image follows from the template.
func rev(name string, generation int64, template string) Revision {
	return Revision{
		Name: name, UID: types.UID("uid-" + name), Generation: generation, Template: template, Ready: true,
		Images: []Image{{Container: "app", Image: "registry/app:" + template, Digest: "registry/app@sha256:" + template}},
	}
}

func revs(rs ...Revision) map[string]*Revision {
	out := map[string]*Revision{}
	for _, r := range rs {
		out[r.Name] = &r
	}
	return out
}

var (
	r1 = rev("cart-1", 1, "a")
	r2 = rev("cart-2", 2, "b")
	r3 = rev("cart-3", 3, "c")
)

const url = "http://cart.shop.example.com"

// routed returns a Ready Service with this split.
func routed(known map[string]*Revision, shares ...Share) Snapshot {
	return Snapshot{
		Generation: 1, Ready: true, Revisions: known,
		Route: &Route{Effective: true, Traffic: NewSplit(shares), URLs: []string{url}},
	}
}

func to(name string, percent int64) Share { return Share{Revision: name, Percent: percent} }

// deployed is a story in which the first Revision is deployed.
func deployed(t *testing.T) *story {
	t.Helper()
	s := newStory(t)
	s.see(Snapshot{Generation: 1}, Created)
	s.see(routed(revs(r1), to("cart-1", 100)), RevisionReady, Deployed, Published)
	return s
}
