// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

// shop was created at 0, moved its traffic at 10, 20 and 30, and still exists.
func shop() Life {
	l := Life{Name: types.NamespacedName{Namespace: "ns", Name: "shop"}, UID: "u", Began: at(0), Ready: at(1)}
	for i, s := range []Split{"a=100", "a=90 b=10", "a=50 b=50", "b=100"} {
		l.Splits = append(l.Splits, Moment{Split: s, From: at(10 * i)})
	}
	return l
}

// story returns events in short form: the kind, then its object.
func story(lines ...string) []Event {
	var out []Event
	for i, line := range lines {
		what, about, _ := strings.Cut(line, " ")
		e := Event{Number: i + 1, Accepted: true, ID: fmt.Sprint(i), Bytes: line, What: what, UID: "u"}
		if what == "ready" {
			e.Revision = about
		} else {
			e.Split = Split(about)
		}
		out = append(out, e)
	}
	return out
}

var full = []string{"created", "ready a", "deployed a=100", "published", "ready b", "shifted a=90 b=10", "shifted a=50 b=50", "upgraded b=100"}

// but is the full story with one line replaced; an empty one is removed.
func but(line, by string) []string {
	var out []string
	for _, l := range full {
		if l == line {
			l = by
		}
		if l != "" {
			out = append(out, l)
		}
	}
	return out
}

func TestJudge(t *testing.T) {
	t.Parallel()
	gone := shop()
	gone.Gone = at(40)
	unready := Life{Name: gone.Name, UID: "u", Began: at(0)}
	left := shop()
	left.Splits[1].Until = at(19)
	brief := unready
	brief.Gone = at(5)
	down := Absence{From: at(15), To: at(35)}
	others := Absence{From: at(15), To: at(35), Of: func(n types.NamespacedName) bool { return n.Name == "other" }}
	for name, c := range map[string]struct {
		life     Life
		story    []string
		absences []Absence
		want     string // counts of lost, invented, altered, disordered, missed
	}{
		"everything reported":                  {shop(), full, nil, "0 0 0 0 0"},
		"until removed":                        {gone, append(but("", ""), "removed"), nil, "0 0 0 0 0"},
		"nothing":                              {shop(), nil, nil, "7 0 0 0 0"},
		"a split is missing":                   {shop(), but("shifted a=50 b=50", ""), nil, "1 0 0 0 0"},
		"the last split is missing":            {shop(), but("upgraded b=100", ""), nil, "1 0 0 0 0"},
		"a Revision is missing":                {shop(), but("ready b", ""), nil, "1 0 0 0 0"},
		"the removal is missing":               {gone, full, nil, "1 0 0 0 0"},
		"a removal that did not happen":        {shop(), append(but("", ""), "removed"), nil, "0 1 0 0 0"},
		"a removal in the middle":              {gone, but("shifted a=50 b=50", "removed"), nil, "1 0 0 1 0"},
		"a split that never existed":           {shop(), append(but("", ""), "shifted b=1"), nil, "0 1 0 0 0"},
		"a split twice":                        {shop(), append(but("", ""), "shifted a=50 b=50"), nil, "0 0 0 1 0"},
		"out of order":                         {shop(), append(but("shifted a=50 b=50", ""), "shifted a=50 b=50"), nil, "1 0 0 1 0"},
		"not Ready":                            {unready, full[:1], nil, "0 0 0 0 0"},
		"not Ready, but published":             {unready, []string{"created", "published"}, nil, "0 1 0 0 0"},
		"superseded without a leader":          {shop(), but("shifted a=50 b=50", ""), []Absence{down}, "0 0 0 0 1"},
		"without a leader for others":          {shop(), but("shifted a=50 b=50", ""), []Absence{others}, "1 0 0 0 0"},
		"still effective, without a leader":    {shop(), but("upgraded b=100", ""), []Absence{down}, "1 0 0 0 0"},
		"effective before the leader was lost": {shop(), but("shifted a=90 b=10", ""), []Absence{down}, "1 0 0 0 0"},
		"with a leader for a moment": {
			shop(), but("shifted a=50 b=50", ""), []Absence{{From: at(26), To: at(35)}, {From: at(15), To: at(25)}}, "0 0 0 0 1",
		},
		"with a leader in between": {
			shop(), but("shifted a=50 b=50", ""), []Absence{{From: at(15), To: at(23)}, {From: at(26), To: at(35)}}, "1 0 0 0 0",
		},
		"replaced without a leader":            {left, but("shifted a=90 b=10", ""), []Absence{{From: at(9), To: at(19)}}, "0 0 0 0 1"},
		"replaced afterwards":                  {left, but("shifted a=90 b=10", ""), []Absence{{From: at(9), To: at(17)}}, "1 0 0 0 0"},
		"created and deleted without a leader": {brief, nil, []Absence{{From: at(-1), To: at(6)}}, "0 0 0 0 1"},
		"created and deleted with a leader":    {brief, nil, []Absence{down}, "1 0 0 0 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := Judge([]Life{c.life}, story(c.story...), c.absences...)
			got := fmt.Sprint(len(v.Lost), len(v.Invented), len(v.Altered), len(v.Disordered), len(v.Missed))
			if got != c.want {
				t.Errorf("got %s, want %s\n%s\n%v", got, c.want, v, v.Err())
			}
			if clean := strings.HasPrefix(c.want, "0 0 0 0"); clean != (v.Err() == nil) {
				t.Errorf("got %v", v.Err())
			}
		})
	}
}

func TestSplitRestoredBeforeTheNextLeader(t *testing.T) {
	t.Parallel()
	l := shop()
	l.Splits[3].Split = "a=90 b=10"
	v := Judge([]Life{l}, story(full[:6]...), Absence{From: at(15), To: at(35)})
	if v.Err() != nil || len(v.Missed) != 1 {
		t.Errorf("%s: %v", v, v.Err())
	}
}

func TestDuplicates(t *testing.T) {
	t.Parallel()
	again := append(story(full...), story(full...)[5])
	if v := Judge([]Life{shop()}, again); v.Err() != nil || v.Duplicates != 1 || v.Events != len(full) {
		t.Errorf("%s: %v", v, v.Err())
	}
	again[len(full)].Bytes += "."
	if v := Judge([]Life{shop()}, again); len(v.Altered) != 1 {
		t.Errorf("%s: %v", v, v.Err())
	}
	// A rejected attempt delivers nothing, but must have the same bytes.
	refused := story(full...)
	refused[6].Accepted = false
	if v := Judge([]Life{shop()}, refused); len(v.Lost) != 1 || v.Duplicates != 0 {
		t.Errorf("%s: %v", v, v.Err())
	}
	stranger := story("created")
	stranger[0].UID = "other"
	if v := Judge(nil, stranger); len(v.Invented) != 1 {
		t.Errorf("%s: %v", v, v.Err())
	}
}

func TestNewSplit(t *testing.T) {
	t.Parallel()
	if got := NewSplit(map[string]int64{"b": 10, "a": 90, "c": 0}); got != "a=90 b=10" {
		t.Errorf("got %q", got)
	}
}
