// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/json"
	"testing"
	"time"
)

func TestUnannouncedChangesMustBeSaved(t *testing.T) {
	s := deployed(t)
	saved := s.m
	same := routed(revs(r1), to("cart-1", 100))
	if r := Next(s.rules, saved, same, s.at); r.Memory.MustSave(saved) {
		t.Error("a resync must not be saved")
	}
	for name, change := range map[string]func(*Snapshot){
		"labels":      func(x *Snapshot) { x.Labels = map[string]string{"tier": "y"} },
		"annotations": func(x *Snapshot) { x.Annotations = map[string]string{"a": "b"} },
		"no URL":      func(x *Snapshot) { x.Route.URLs = nil },
	} {
		x := routed(revs(r1), to("cart-1", 100))
		change(&x)
		if r := Next(s.rules, saved, x, s.at); !r.Memory.MustSave(saved) || len(r.Transitions) > 0 {
			t.Errorf("%s: not saved, or announced: %+v", name, r.Transitions)
		}
	}
}

func TestMemorySurvivesTheLedger(t *testing.T) {
	s := deployed(t)
	s.see(routed(revs(r1, r2), to("cart-1", 90), to("cart-2", 10)), RevisionReady, TrafficShifted)
	raw, err := json.Marshal(s.m)
	if err != nil {
		t.Fatal(err)
	}
	var back Memory
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	next := routed(revs(r1, r2), to("cart-1", 100))
	a, b := Next(s.rules, s.m, next, s.at), Next(s.rules, back, next, s.at)
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	if string(x) != string(y) {
		t.Errorf("after the ledger:\n%s\nbefore:\n%s", y, x)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	s := deployed(t)
	known := revs(r1)
	for g := int64(2); g < 200; g++ {
		r := rev("cart-"+string(rune('0'+g%10))+time.Duration(g).String(), g, time.Duration(g).String())
		known[r.Name] = &r
		s.see(routed(known, to(r.Name, 100)), RevisionReady, Upgraded)
	}
	raw, err := json.Marshal(s.m)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.m.Revisions) > maxRevisions || len(s.m.Former) > maxFormer || len(raw) > 32<<10 {
		t.Errorf("%d Revisions, %d former, %d bytes", len(s.m.Revisions), len(s.m.Former), len(raw))
	}
}
