// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Event is an event as a sink received it.
type Event struct {
	// Number is that of the request.
	Number int
	// Accepted says that the sink accepted it.
	Accepted bool
	ID       string
	// Bytes is everything that must be equal in a duplicate.
	Bytes string
	// What is "created", "ready", "deployed", "published", "shifted", "upgraded", "rolledback" or "removed".
	What string
	// UID is that of the Service; Revision and Split are those that the event reports.
	UID      types.UID
	Revision string
	Split    Split
}

func (e Event) String() string {
	return fmt.Sprintf("request %d: %s %s of %s [%s]", e.Number, e.What, e.Revision, e.UID, e.Split)
}

// Absence is a time without a leader for some Services. Only replicas that watched know what appeared and ended in it.
type Absence struct {
	From, To time.Time
	// Of selects the Services; nil means all.
	Of func(types.NamespacedName) bool
	// By is the next leader, if it is known.
	By string
}

// slack is the time until a step is observed and journaled, at either end of an absence. A leader that leads for less
// than that between two absences may die before it journals anything.
const slack = time.Second

// absent returns the times without a leader for a Service, and joins those that meet.
func absent(name types.NamespacedName, absences []Absence) []Absence {
	var out []Absence
	first := func(a, b Absence) int { return a.From.Compare(b.From) }
	for _, a := range slices.SortedFunc(slices.Values(absences), first) {
		if a.Of != nil && !a.Of(name) {
			continue
		}
		a.From, a.To = a.From.Add(-slack), a.To.Add(slack)
		if n := len(out); n > 0 && a.From.Before(out[n-1].To) {
			if a.To.After(out[n-1].To) {
				out[n-1].To, out[n-1].By = a.To, a.By
			}
			continue
		}
		out = append(out, a)
	}
	return out
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Verdict is the result of a comparison.
type Verdict struct {
	Lives, Changes int
	// Events counts distinct events, Duplicates identical repetitions.
	Events, Duplicates int
	// Missed lists what appeared and ended without a leader. Seen is the part that a replica saw that did not lead next.
	Missed, Seen []string
	// These must all be empty.
	Lost, Invented, Altered, Disordered []string
}

func (v Verdict) String() string {
	return fmt.Sprintf("%d Services, %d changes of traffic; %d events, %d duplicates; lost %d, invented %d, altered %d, out of order %d; appeared and ended without a leader: %d, %d of them seen by a replica that did not lead next",
		v.Lives, v.Changes, v.Events, v.Duplicates, len(v.Lost), len(v.Invented), len(v.Altered), len(v.Disordered),
		len(v.Missed), len(v.Seen))
}

// Err returns an error that lists every violation; nil if there is none.
func (v Verdict) Err() error {
	var errs []error
	for _, f := range []struct {
		what  string
		found []string
	}{{"lost", v.Lost}, {"invented", v.Invented}, {"altered", v.Altered}, {"out of order", v.Disordered}} {
		for _, one := range f.found {
			errs = append(errs, fmt.Errorf("%s: %s", f.what, one))
		}
	}
	return errors.Join(errs...)
}

// Judge compares what happened with what a sink received.
func Judge(lives []Life, events []Event, absences ...Absence) Verdict {
	return JudgeSeen(lives, events, nil, absences...)
}

// JudgeSeen also knows when replicas watched: what appeared and ended without a leader must still be reported if the
// next leader saw it.
func JudgeSeen(lives []Life, events []Event, watching []Watching, absences ...Absence) Verdict {
	j := judge{absences: absences, watching: watching, received: map[types.UID][]Event{}}
	j.receive(events)
	for _, l := range lives {
		j.Lives++
		j.Changes += max(len(l.Splits)-1, 0)
		j.life(l)
		delete(j.received, l.UID)
	}
	for _, unknown := range j.received {
		for _, e := range unknown {
			j.Invented = append(j.Invented, fmt.Sprintf("of a Service that never existed: %s", e))
		}
	}
	return j.Verdict
}

type judge struct {
	Verdict
	absences []Absence
	watching []Watching
	received map[types.UID][]Event
}

// receive groups distinct events by Service, in the order in which they were first accepted.
func (j *judge) receive(events []Event) {
	bytes, taken := map[string]string{}, map[string]bool{}
	for _, e := range events {
		if before, again := bytes[e.ID]; again && before != e.Bytes {
			j.Altered = append(j.Altered, fmt.Sprintf("%s\n%s\nwas\n%s", e, e.Bytes, before))
		}
		bytes[e.ID] = e.Bytes
		switch {
		case !e.Accepted:
		case taken[e.ID]:
			j.Duplicates++
		default:
			taken[e.ID] = true
			j.received[e.UID] = append(j.received[e.UID], e)
		}
	}
	j.Events = len(taken)
}

// excused reports whether something began and ended without a leader, and returns that absence.
func (j *judge) excused(name types.NamespacedName, from, to time.Time) (Absence, bool) {
	all := absent(name, j.absences)
	i := slices.IndexFunc(all, func(a Absence) bool { return from.After(a.From) && to.Before(a.To) })
	if to.IsZero() || i < 0 {
		return Absence{}, false
	}
	return all[i], true
}

func (j *judge) life(l Life) {
	received := j.received[l.UID]
	if a, ok := j.excused(l.Name, l.Began, l.Gone); ok && len(received) == 0 {
		j.miss(fmt.Sprintf("all of %s", l), l.Began, a)
		return
	}
	count := map[string]int{}
	for _, e := range received {
		key := e.What
		if e.What == "ready" {
			key += " " + e.Revision
		}
		if count[key]++; count[key] > 1 && !traffic(e) {
			j.Invented = append(j.Invented, fmt.Sprintf("twice: %s", e))
		}
	}
	demand := func(happened bool, what string) {
		switch n := count[what]; {
		case happened && n == 0:
			j.Lost = append(j.Lost, fmt.Sprintf("%s of %s", what, l))
		case !happened && n > 0:
			j.Invented = append(j.Invented, fmt.Sprintf("%s of %s", what, l))
		}
	}
	demand(true, "created")
	if _, ok := j.excused(l.Name, l.Ready, l.Gone); l.Ready.IsZero() || !ok {
		demand(!l.Ready.IsZero(), "deployed")
		demand(!l.Ready.IsZero(), "published")
	}
	demand(!l.Gone.IsZero() && count["deployed"] > 0, "removed")
	if n := len(received); count["removed"] > 0 && received[n-1].What != "removed" {
		j.Disordered = append(j.Disordered, fmt.Sprintf("after removed came %s", received[n-1]))
	}
	for _, e := range received {
		for _, revision := range e.Split.revisions() {
			if key := "ready " + revision; count[key] == 0 {
				j.Lost = append(j.Lost, fmt.Sprintf("%s of %s", key, l))
				count[key]++ // reported once
			}
		}
	}
	j.splits(l, received)
}

// miss records what became of an event that was not reported because there was no leader.
func (j *judge) miss(what string, at time.Time, a Absence) {
	if j.hadSeen(at, a) {
		j.Lost = append(j.Lost, fmt.Sprintf("%s; there was no leader, but %s saw it and led from %s on", what, a.By, clock(a.To.Add(-slack))))
		return
	}
	if by := j.standbys(at); len(by) > 0 {
		what = fmt.Sprintf("%s; seen by %s", what, strings.Join(by, ", "))
		j.Seen = append(j.Seen, what)
	}
	j.Missed = append(j.Missed, what)
}

// traffic reports whether an event announces an effective split.
func traffic(e Event) bool {
	return slices.Contains([]string{"deployed", "shifted", "upgraded", "rolledback"}, e.What)
}

// splits requires one event for each effective split, in order.
func (j *judge) splits(l Life, received []Event) {
	last, current := -1, Split("")
	pass := func(to int) {
		for i := last + 1; i < to; i++ {
			s := l.Splits[i]
			a, ok := j.excused(l.Name, s.From, l.until(i))
			switch {
			case s.Split == current:
				// Without the events in between, nothing has changed.
			case ok:
				j.miss(fmt.Sprintf("split %s of %s, effective from %s to %s", s.Split, l, clock(s.From), clock(l.until(i))), s.From, a)
			default:
				j.Lost = append(j.Lost, fmt.Sprintf("split %s of %s, effective from %s to %s", s.Split, l, clock(s.From), clock(l.until(i))))
			}
		}
	}
	for _, e := range received {
		if !traffic(e) {
			continue
		}
		is := func(m Moment) bool { return m.Split == e.Split }
		next := slices.IndexFunc(l.Splits[last+1:], is)
		switch {
		case next >= 0:
			next += last + 1
			pass(next)
			last, current = next, e.Split
		case slices.ContainsFunc(l.Splits, is):
			j.Disordered = append(j.Disordered, fmt.Sprintf("after a later one, or twice: %s", e))
		default:
			j.Invented = append(j.Invented, fmt.Sprintf("a split that was never effective: %s; those were %s", e, l.splits()))
		}
	}
	pass(len(l.Splits))
}

func (l Life) splits() string {
	out := make([]string, len(l.Splits))
	for i, m := range l.Splits {
		out[i] = string(m.Split)
	}
	return strings.Join(out, ", ")
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "now"
	}
	return t.Format("15:04:05.000")
}
