// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
)

// A Result is what a search found.
type Result struct {
	// States is the number of different states visited, and Depth the length of the longest of the shortest ways to one.
	States, Depth int
	// Violation is the first violation found.
	Violation Violation
	// Trace is a shortest way to the violation, one step a line.
	Trace []string
	// Reached says how often each kind of step was taken.
	Reached map[string]int
}

func (r Result) String() string {
	return fmt.Sprintf("%d states, depth %d, violation: %s\n%s", r.States, r.Depth, r.Violation, strings.Join(r.Trace, "\n"))
}

type key [2]uint64

// A visit tells how a state was first reached: by which step, counted from 0, of which state.
type visit struct {
	from int
	step int32
}

type search struct {
	steps
	seeds    [2]maphash.Seed
	seen     map[key]struct{}
	visits   []visit
	frontier []state
	next     []state
	nextIDs  []int
	reached  map[string]int
	found    Violation
}

// Run visits all states that are possible within the bounds, breadth first, up to the first violation. It returns an error
// if there are more states than the limit.
func Run(c Config, limit int) (Result, error) {
	if c.Slots > maxSlots || c.Positions > maxPosition || max(c.Revisions[0], c.Revisions[1]) > maxRevision {
		return Result{}, fmt.Errorf("the bounds %+v exceed the arrays", c)
	}
	x := &search{
		steps:   steps{Config: c},
		seeds:   [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		seen:    map[key]struct{}{},
		reached: map[string]int{},
	}
	return x.run(limit)
}

func (x *search) run(limit int) (Result, error) {
	var first state
	x.normalize(&first)
	x.frontier = []state{first}
	x.add(&first, visit{-1, 0})
	ids := x.nextIDs
	for depth := 0; ; depth++ {
		x.next, x.nextIDs = nil, nil
		for n := range x.frontier {
			x.visit(&x.frontier[n], ids[n])
			if x.found != None {
				return x.result(depth + 1), nil
			}
		}
		if len(x.next) == 0 {
			return x.result(depth), nil
		}
		if len(x.visits) > limit {
			return x.result(depth), fmt.Errorf("more than %d states", limit)
		}
		x.frontier, ids = x.next, x.nextIDs
	}
}

// visit takes all steps of a state.
func (x *search) visit(s *state, id int) {
	n := int32(-1)
	x.emit = func(t *step) {
		n++
		if x.found != None {
			return
		}
		x.reached[t.what]++
		if v := t.violation; v != None && v != x.Ignore {
			x.visits = append(x.visits, visit{id, n})
			x.found = v
			return
		}
		// The sender of the step may still use it.
		next := t.next
		x.normalize(&next)
		if x.add(&next, visit{id, n}) {
			if v := x.check(&next); v != x.Ignore {
				x.found = v
			}
		}
	}
	x.from(s)
}

// add returns whether a state is new.
func (x *search) add(s *state, v visit) bool {
	k := key{maphash.Comparable(x.seeds[0], *s), maphash.Comparable(x.seeds[1], *s)}
	if _, ok := x.seen[k]; ok {
		return false
	}
	x.seen[k] = struct{}{}
	x.nextIDs = append(x.nextIDs, len(x.visits))
	x.next = append(x.next, *s)
	x.visits = append(x.visits, v)
	return true
}

func (x *search) result(depth int) Result {
	r := Result{States: len(x.visits), Depth: depth, Violation: x.found, Reached: x.reached}
	if x.found != None {
		r.Trace = x.trace()
	}
	return r
}

// trace repeats the steps to the last state.
func (x *search) trace() []string {
	var path []int32
	for n := len(x.visits) - 1; x.visits[n].from >= 0; n = x.visits[n].from {
		path = append(path, x.visits[n].step)
	}
	slices.Reverse(path)
	var lines []string
	var s state
	x.normalize(&s)
	swapped := false
	for _, wanted := range path {
		var n int32
		var taken step
		x.emit = func(t *step) {
			if n == wanted {
				taken = *t
			}
			n++
		}
		x.from(&s)
		s = taken.next
		if swapped && taken.process >= 0 {
			taken.process = 1 - taken.process
		}
		lines = append(lines, taken.String())
		if x.normalize(&s) {
			swapped = !swapped
		}
	}
	return lines
}

var processNames = [...]string{"", "A", "B"}

// String describes a step.
func (t *step) String() string {
	what := t.what
	if t.sent != "" {
		what = t.sent + "; " + what
	}
	return strings.NewReplacer("{p}", processNames[t.process+1], "{n}", strconv.Itoa(int(t.about))).Replace(what)
}
