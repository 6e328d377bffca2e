// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// TestMoments checks what is said of the split between two events.
func TestMoments(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2040, 1, 2, 12, minute, 0, 0, time.UTC) }
	split := func(first int64) []lifecycle.Share {
		if first == 100 {
			return []lifecycle.Share{{Revision: "a", Percent: 100}}
		}
		return []lifecycle.Share{{Revision: "a", Percent: first}, {Revision: "b", Percent: 100 - first}}
	}
	line := Timeline{Sequence: 9, Events: []Event{
		{Sequence: 1, Time: at(1), kind: lifecycle.Created},
		{Sequence: 2, Time: at(2), kind: lifecycle.Deployed, Split: split(100)},
		{Sequence: 3, Time: at(3), kind: lifecycle.RevisionReady},
		{Sequence: 4, Time: at(4), kind: lifecycle.TrafficShifted},
		{Sequence: 5, Time: at(6), kind: lifecycle.TrafficShifted, Split: split(70)},
		{Sequence: 7, Time: at(7), kind: lifecycle.Judged},
		{Sequence: 8, Time: at(8), kind: lifecycle.RolledBack, Split: split(100)},
	}}
	got := Moments(line, []Moment{{Time: at(5), Name: "seen", Split: split(90)}, {Time: at(9), Name: "gate"}}, split(50))
	type is struct {
		Name    string
		First   int64
		Missing int64
	}
	var short []is
	for _, m := range got {
		one := is{Name: m.Name, Missing: m.Missing}
		if len(m.Split) > 0 {
			one.First = m.Split[0].Percent
		}
		short = append(short, one)
	}
	want := []is{
		{"service.created", 0, 0},
		{"service.deployed", 100, 0},
		{"revision.ready", 100, 0}, // changes nothing
		{"traffic.shifted", 0, 0},  // changes the split to one that is not known
		{"seen", 90, 0},
		{"traffic.shifted", 70, 1},
		{"testcaserun.finished", 0, 0}, // what came before is not kept
		{"service.rolledback", 100, 1},
		{"gate", 50, 0},
	}
	if diff := cmp.Diff(want, short); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	two := Timeline{Sequence: 2, Events: []Event{{Sequence: 1, Time: at(1), Split: split(90)}, {Sequence: 2, Time: at(2), kind: lifecycle.RolledBack, withdrawn: "b"}}}
	if got := Moments(two, nil, nil); !slices.Equal(got[1].Split, split(100)) {
		t.Errorf("after the canary was withdrawn: %+v", got)
	}
	if got := Moments(Timeline{}, nil, split(100)); len(got) != 0 {
		t.Errorf("of nothing: %+v", got)
	}
}
