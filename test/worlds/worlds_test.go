// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

// named returns a world of the table.
func named(t *testing.T, group, name string) world {
	t.Helper()
	for _, w := range worlds() {
		if w.group == group && w.name == name {
			return w
		}
	}
	t.Fatalf("there is no world %s: %s", group, name)
	return world{}
}

// Without text, a reading has the same values, and a run that is stored and resumed at every step ends the same way.
func TestTheShortCutChangesNothing(t *testing.T) {
	t.Parallel()
	for _, w := range []world{
		named(t, "errors", "1 → 5 %"),
		named(t, "client errors", "429 to half"),
		named(t, "sharded", "0.1 → 5 %"),
		named(t, "restarts", "one of the canary's pods restarts every minute, sharded"),
		named(t, "clocks", "the baseline's nodes step 5 s every 30 s"),
	} {
		w.before = 5 * time.Minute
		short, err := player{seed: 7, rivals: true}.once(t.Context(), w, 1)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := player{seed: 7, rivals: true, whole: true}.once(t.Context(), w, 1)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(short, whole) {
			t.Errorf("%s: %+v without text, %+v with", w.name, short, whole)
		}
	}
}

// What happens in a world does not depend on what is made of it.
func TestNoWorldSeesTheJudge(t *testing.T) {
	t.Parallel()
	w := named(t, "errors", "1 % on both sides, 33 a second, 30 min")
	w.before = time.Minute
	first, err := player{seed: 7, rivals: true}.once(t.Context(), w, 1)
	if err != nil {
		t.Fatal(err)
	}
	w.gate = lasts(10 * time.Minute)
	other, err := player{seed: 7, rivals: true}.once(t.Context(), w, 1)
	if err != nil {
		t.Fatal(err)
	}
	if first.minutes == other.minutes || !reflect.DeepEqual(first.others, other.others) {
		t.Errorf("%+v, and %+v", first, other)
	}
}

// Every world of the table can be played: around the split, both sides have requests.
func TestEveryWorldIsPlayed(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for i, w := range worlds() {
		id := w.group + ": " + w.name
		if known[id] || w.group == "" || w.name == "" {
			t.Errorf("%q is not the name of one world", id)
		}
		known[id] = true
		w.before = 40 * time.Second
		s := newScene(w.withDefaults(), rand.New(rand.NewPCG(7, uint64(i))), i%10 == 0)
		if err := s.until(61); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		for _, one := range []side{baseline, canary} {
			if n := s.gate[one].now.requests; n == 0 && !strings.Contains(id, "hangs") && !strings.Contains(id, "long requests") {
				t.Errorf("%s: %s had no request", id, names[one])
			}
		}
	}
}

func TestWilson(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n, of int
		want  string
	}{{9, 200, "4.5 [2.4–8.3]"}, {0, 100, "0 [≤ 3.7]"}, {100, 100, "100 [96.3–100]"}} {
		if got := interval(c.n, c.of); got != c.want {
			t.Errorf("%d of %d: %s, want %s", c.n, c.of, got, c.want)
		}
	}
}

func TestTheTableIsReplaced(t *testing.T) {
	t.Parallel()
	page := fmt.Sprintf("a\n%s\nold\n%s\nb\n", begins, ends)
	got, err := replaced(page, "new\n")
	if want := strings.Replace(page, "old", "new", 1); err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := replaced("a\n", "new\n"); err == nil {
		t.Error("a page without marks was written")
	}
}
