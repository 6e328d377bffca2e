// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"testing"
	"time"
)

// The split a=50 b=50 was effective from 20 to 30, and there was no leader from 15 to 35.
func TestStandbyReplicas(t *testing.T) {
	t.Parallel()
	long := func(name string) Watching { return Watching{Replica: name, From: at(-100)} }
	until := func(w Watching, to int) Watching { w.To = at(to); return w }
	from := func(w Watching, from int) Watching { w.From = at(from); return w }
	down := Absence{From: at(15), To: at(35), By: "b"}
	for name, c := range map[string]struct {
		watching []Watching
		absences []Absence
		want     string // counts of lost, missed, and seen among these
	}{
		"no replica watched":                 {nil, []Absence{down}, "0 1 0"},
		"the next leader saw it":             {[]Watching{long("b")}, []Absence{down}, "1 0 0"},
		"another replica saw it":             {[]Watching{long("c"), from(long("b"), 25)}, []Absence{down}, "0 1 1"},
		"it watched too late":                {[]Watching{from(long("b"), 20)}, []Absence{down}, "0 1 0"},
		"it died before it led":              {[]Watching{until(long("b"), 25)}, []Absence{down}, "0 1 1"},
		"it was restarted before it led":     {[]Watching{until(long("b"), 25), from(long("b"), 30)}, []Absence{down}, "0 1 1"},
		"no leader yet":                      {[]Watching{long("b")}, []Absence{{From: at(15), To: at(35)}}, "0 1 1"},
		"another replica led for an instant": {[]Watching{long("b"), from(long("c"), 25)}, []Absence{{From: at(15), To: at(32), By: "b"}, {From: at(32), To: at(50), By: "c"}}, "0 1 1"},
		"the leader of an instant saw it":    {[]Watching{long("b"), long("c")}, []Absence{{From: at(15), To: at(32), By: "b"}, {From: at(32), To: at(50), By: "c"}}, "1 0 0"},
		"too long ago":                       {[]Watching{long("b")}, []Absence{{From: at(15), To: at(35 + 300), By: "b"}}, "0 1 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := JudgeSeen([]Life{shop()}, story(but("shifted a=50 b=50", "")...), c.watching, c.absences...)
			if got := fmt.Sprint(len(v.Lost), len(v.Missed), len(v.Seen)); got != c.want {
				t.Errorf("got %s, want %s\n%s\n%v", got, c.want, v, v.Err())
			}
		})
	}
}

func TestWatchings(t *testing.T) {
	t.Parallel()
	replicas := []Replica{{"old", "10.0.0.1", at(0)}, {"new", "10.0.0.1", at(100)}, {"other", "10.0.0.2", at(0)}}
	began := func(id, address string, s int) Request {
		return Request{ID: id, Address: address, At: at(s), Began: true}
	}
	ended := func(id string, s int) Request { return Request{ID: id, At: at(s)} }
	got := Watchings([]Request{
		began("1", "10.0.0.1", 2), ended("1", 50), began("2", "10.0.0.1", 51), ended("2", 90),
		began("3", "10.0.0.1", 103),
		began("4", "10.0.0.2", 3), ended("4", 40), began("5", "10.0.0.2", 60),
		began("6", "10.0.0.9", 3),
	}, replicas)
	want := []Watching{
		{"old", at(2), at(90)},
		{"other", at(3), at(40)},
		{"other", at(60), time.Time{}},
		{"new", at(103), time.Time{}},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}
