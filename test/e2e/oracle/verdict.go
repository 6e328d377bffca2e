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
	// Number of the request.
	Number int
	// Accepted says that the sink took it.
	Accepted bool
	ID       string
	// Bytes are all that must be the same when the event comes again.
	Bytes string
	// What happened: "created", "ready", "deployed", "published", "shifted", "upgraded", "rolledback", "removed".
	What string
	// UID of the Service, the Revision that the event is about, and the split that it tells of.
	UID      types.UID
	Revision string
	Split    Split
}

func (e Event) String() string {
	return fmt.Sprintf("request %d: %s %s of %s [%s]", e.Number, e.What, e.Revision, e.UID, e.Split)
}

// Absence is a time in which nobody led for some Services. What came and went within it is known only to who watched.
type Absence struct {
	From, To time.Time
	// Of says which Services; nil is all.
	Of func(types.NamespacedName) bool
	// By is the replica that led afterwards, where that is known.
	By string
}

// slack is how long it may take until a step that was made is seen and journaled, on either side of an absence. Who
// leads for less than that between two absences may have died before anything was journaled.
const slack = time.Second

// absent are the times in which nobody led for a Service, joined where they meet.
func absent(name types.NamespacedName, absences []Absence) []Absence {
	var out []Absence
	for _, a := range slices.SortedFunc(slices.Values(absences), func(a, b Absence) int { return a.From.Compare(b.From) }) {
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

// Verdict is what was found.
type Verdict struct {
	Lives, Changes int
	// Told counts the different events, Duplicates those that came again as they were.
	Told, Duplicates int
	// Missed came and went while nobody led. Of these, Seen were seen by a replica that did not lead afterwards.
	Missed, Seen []string
	// None of these must be.
	Lost, Invented, Altered, Disordered []string
}

func (v Verdict) String() string {
	return fmt.Sprintf("%d Services, %d changes of traffic; %d events, %d of them again; lost %d, invented %d, altered %d, out of order %d; came and went while nobody led: %d, %d of them seen by a replica that did not lead afterwards",
		v.Lives, v.Changes, v.Told, v.Duplicates, len(v.Lost), len(v.Invented), len(v.Altered), len(v.Disordered), len(v.Missed), len(v.Seen))
}

// Err tells of every promise that was not kept.
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

// Judge compares what happened with what one sink received.
func Judge(lives []Life, events []Event, absences ...Absence) Verdict {
	return JudgeSeen(lives, events, nil, absences...)
}

// JudgeSeen knows when replicas watched, too: what came and went while nobody led must be told all the same if the one
// that led afterwards had seen it.
func JudgeSeen(lives []Life, events []Event, watching []Watching, absences ...Absence) Verdict {
	j := judge{absences: absences, watching: watching, told: map[types.UID][]Event{}}
	j.receive(events)
	for _, l := range lives {
		j.Lives++
		j.Changes += max(len(l.Splits)-1, 0)
		j.life(l)
		delete(j.told, l.UID)
	}
	for _, unknown := range j.told {
		for _, e := range unknown {
			j.Invented = append(j.Invented, fmt.Sprintf("of a Service that never was: %s", e))
		}
	}
	return j.Verdict
}

type judge struct {
	Verdict
	absences []Absence
	watching []Watching
	told     map[types.UID][]Event
}

// receive sorts the events by Service, each once, in the order in which they were first taken.
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
			j.told[e.UID] = append(j.told[e.UID], e)
		}
	}
	j.Told = len(taken)
}

// excused says that something began and ended while nobody led, and within which absence.
func (j *judge) excused(name types.NamespacedName, from, to time.Time) (Absence, bool) {
	all := absent(name, j.absences)
	i := slices.IndexFunc(all, func(a Absence) bool { return from.After(a.From) && to.Before(a.To) })
	if to.IsZero() || i < 0 {
		return Absence{}, false
	}
	return all[i], true
}

func (j *judge) life(l Life) {
	told := j.told[l.UID]
	if a, ok := j.excused(l.Name, l.Began, l.Gone); ok && len(told) == 0 {
		j.miss(fmt.Sprintf("all of %s", l), l.Began, a)
		return
	}
	count := map[string]int{}
	for _, e := range told {
		key := e.What
		if e.What == "ready" {
			key += " " + e.Revision
		}
		if count[key]++; count[key] > 1 && !traffic(e) {
			j.Invented = append(j.Invented, fmt.Sprintf("a second time: %s", e))
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
	if n := len(told); count["removed"] > 0 && told[n-1].What != "removed" {
		j.Disordered = append(j.Disordered, fmt.Sprintf("after removed came %s", told[n-1]))
	}
	for _, e := range told {
		for _, revision := range e.Split.revisions() {
			if key := "ready " + revision; count[key] == 0 {
				j.Lost = append(j.Lost, fmt.Sprintf("%s of %s", key, l))
				count[key]++ // said once
			}
		}
	}
	j.splits(l, told)
}

// miss says what came of something that was not told, as nobody led while it came and went.
func (j *judge) miss(what string, at time.Time, a Absence) {
	if j.hadSeen(at, a) {
		j.Lost = append(j.Lost, fmt.Sprintf("%s; nobody led, but %s saw it, and led from %s on", what, a.By, clock(a.To.Add(-slack))))
		return
	}
	if by := j.standbys(at); len(by) > 0 {
		what = fmt.Sprintf("%s; seen by %s", what, strings.Join(by, ", "))
		j.Seen = append(j.Seen, what)
	}
	j.Missed = append(j.Missed, what)
}

// traffic says that an event tells of a split that became effective.
func traffic(e Event) bool {
	return slices.Contains([]string{"deployed", "shifted", "upgraded", "rolledback"}, e.What)
}

// splits wants each effective split told by one event, in order.
func (j *judge) splits(l Life, told []Event) {
	last, current := -1, Split("")
	pass := func(to int) {
		for i := last + 1; i < to; i++ {
			s := l.Splits[i]
			a, ok := j.excused(l.Name, s.From, l.until(i))
			switch {
			case s.Split == current:
				// What was between is not told, so that nothing has changed.
			case ok:
				j.miss(fmt.Sprintf("split %s of %s, effective from %s to %s", s.Split, l, clock(s.From), clock(l.until(i))), s.From, a)
			default:
				j.Lost = append(j.Lost, fmt.Sprintf("split %s of %s, effective from %s to %s", s.Split, l, clock(s.From), clock(l.until(i))))
			}
		}
	}
	for _, e := range told {
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
			j.Disordered = append(j.Disordered, fmt.Sprintf("told after a later one, or a second time: %s", e))
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
