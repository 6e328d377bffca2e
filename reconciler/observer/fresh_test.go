package observer

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// mapped is a kind whose caches hold floating parts, as of a position.
type mapped struct {
	plain
	position string
	cached   Parts
}

func (m *mapped) Position() string                  { return m.position }
func (m *mapped) Cached(types.NamespacedName) Parts { return m.cached }

func TestFloatingPartsOfThePast(t *testing.T) {
	t.Parallel()
	domain := func(version string) Parts {
		return Parts{"domain/a": {Name: "domain/a", Version: version, Value: 1, Floating: true}}
	}
	last, earlier := step{parts: domain("10")}, step{parts: domain("10"), update: update{id: 7}}
	for name, c := range map[string]struct {
		of       step
		at, seen string
		position string
		cached   Parts
		past     bool
		lagging  bool
		now      string
	}{
		"newer than what was told":                            {of: last, at: "12", seen: "11", now: "12"},
		"what was told":                                       {of: last, at: "12", seen: "12", now: "12"},
		"a memory of a release that knew no position":         {of: last, at: "12", now: "12"},
		"no position is known":                                {of: last, seen: "12"},
		"not the last of a history":                           {of: earlier, at: "12", seen: "20", position: "30", cached: domain("10"), past: true},
		"the caches know of nothing since":                    {of: last, at: "12", seen: "20", position: "30", cached: domain("10"), now: "30"},
		"the caches lag behind":                               {of: last, at: "12", seen: "20", position: "19", cached: domain("10"), past: true, lagging: true},
		"the caches have another version, that is on its way": {of: last, at: "12", seen: "20", position: "30", cached: domain("25"), past: true, lagging: true},
		"the caches have none any more":                       {of: last, at: "12", seen: "20", position: "30", past: true, lagging: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fold{o: New(Options{Kind: &mapped{position: c.position, cached: c.cached}}), steps: []step{earlier, last}}
			c.of.position = c.at
			m := lifecycle.Memory{Seen: map[string]string{lifecycle.SeenRoute: "1"}, URLs: []string{"http://a"}}
			if c.seen != "" {
				m.Seen[lifecycle.SeenDomains] = c.seen
			}
			s, news := f.fresh(m, lifecycle.Snapshot{Seen: map[string]string{lifecycle.SeenRoute: "1"}, Route: &lifecycle.Route{}}, c.of)
			if s.URLsPast != c.past || f.lagging != c.lagging || s.Seen[lifecycle.SeenDomains] != c.now || !news {
				t.Errorf("past %v, lagging %v, seen %q, news %v; want %v, %v, %q", s.URLsPast, f.lagging, s.Seen[lifecycle.SeenDomains], news, c.past, c.lagging, c.now)
			}
		})
	}
}

func TestNewest(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{{"", "", ""}, {"5", "", "5"}, {"", "5", "5"}, {"0", "5", "5"}, {"5", "0", "5"}, {"9", "10", "10"}, {"10", "9", "10"}} {
		if got := newest(c[0], c[1]); got != c[2] {
			t.Errorf("newest(%q, %q) = %q, want %q", c[0], c[1], got, c[2])
		}
	}
}
