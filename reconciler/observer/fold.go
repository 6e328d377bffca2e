package observer

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// unsaved is a memory that is ahead of the ledger, and the state of the ledger
// that it is ahead of. Nothing was announced on the way from one to the other.
type unsaved struct {
	memory lifecycle.Memory
	ahead  string
}

// fold is one pass over the history of one key.
type fold struct {
	ctx   context.Context
	o     *Observer
	track *track
	key   types.NamespacedName
	since time.Time
	now   time.Time
	rules lifecycle.Rules

	steps []step
	// past holds the UIDs that the object is known to have had.
	past    []types.UID
	unsaved map[string]unsaved
	// waiting is since when something is waited for of each UID. It is
	// kept apart from what the ledger holds.
	waiting map[types.UID]map[lifecycle.Wait]time.Time
	// patient says that a Revision which is not cached may still come.
	patient bool
	// doubtful says that the parts came from a cache that may lag behind.
	doubtful bool

	// consumed holds the updates that need not be looked at again.
	consumed map[uint64]bool
	held     bool
	// lagging says that the API server knows better than the cache.
	lagging  bool
	wake     time.Time
	memories map[string]unsaved
}

// run folds the steps, subject by subject in the order of time.
func (f *fold) run() error {
	f.memories = map[string]unsaved{}
	for i := 0; i < len(f.steps); {
		first := f.steps[i]
		if first.orphan(f.past) {
			wait, err := f.await(first.update.part.Owner)
			if err != nil || wait {
				return err
			}
		}
		subject := f.compose(first)
		if subject == nil && first.update.id == 0 && len(f.steps) > 1 {
			i++ // no object as yet: what is known of its parts is in the next step too
			continue
		}
		uid := types.UID("")
		if subject != nil {
			uid = subject.UID
		}
		if err := f.bury(uid, first.at); err != nil {
			return err
		}
		n := 1
		if subject != nil {
			var err error
			if n, err = f.follow(subject, f.upTo(i)); err != nil {
				return err
			}
		}
		if n == 0 {
			f.held = true
			return nil
		}
		for _, s := range f.steps[i : i+n] {
			f.consumed[s.update.id] = true
		}
		i += n
	}
	return nil
}

// upTo returns the steps from i on, as far as they can be folded together.
func (f *fold) upTo(i int) []step {
	for j := i + 1; j < len(f.steps); j++ {
		if f.steps[j].orphan(f.past) {
			return f.steps[i:j]
		}
	}
	return f.steps[i:]
}

// await says whether to wait for an object whose Route is here already. It may
// also be one that was gone before we began.
func (f *fold) await(owner types.UID) (bool, error) {
	f.held = true
	if f.patient {
		return true, nil
	}
	live, err := f.o.Kind.Live(f.ctx, f.key)
	if err != nil {
		return true, fmt.Errorf("asking the API server for %s, whose Route is known: %w", f.key, err)
	}
	f.held = live == owner
	return f.held, nil
}

// after is when the key must come again.
func (f *fold) after() time.Duration {
	d := time.Duration(0)
	switch {
	case f.held && f.patient:
		d = holdFor / 4
	case f.held, f.lagging:
		d = retryAfter
	case !f.wake.IsZero():
		d = f.wake.Sub(f.o.Now())
	}
	return max(d, time.Millisecond)
}

func (f *fold) compose(s step) *Subject { return f.o.Kind.Compose(s.parts) }

// entries are those of every object that has or had this name, as far as the
// ledger still knows it.
func (f *fold) entries() []*v1alpha1.CDEventSubject {
	return f.o.Ledger.Subjects(f.o.ledgerKey(f.key))
}

// remembered are the UIDs of which something is to be remembered: those that the
// ledger does not know to be gone, and the one that is there.
func (f *fold) remembered() map[types.UID]bool {
	out := map[types.UID]bool{}
	for _, entry := range f.entries() {
		out[entry.Spec.UID] = !entry.Status.Removed
	}
	for _, p := range f.track.base {
		if _, removed := out[p.Owner]; p.Root && !removed {
			out[p.Owner] = true
		}
	}
	return out
}

// bury journals the end of every object of this name that has another UID than
// the present one. A cache that lags behind must not end what is still there,
// so that the API server is asked.
func (f *fold) bury(present types.UID, at time.Time) error {
	for _, entry := range f.entries() {
		if entry.Spec.UID == present || entry.Status.Removed {
			continue
		}
		live, err := f.o.Kind.Live(f.ctx, f.key)
		if err != nil {
			return fmt.Errorf("asking the API server whether %s is gone: %w", f.key, err)
		}
		if live == entry.Spec.UID {
			// The cache lags behind. What it lags by comes as an update.
			f.lagging = true
			continue
		}
		gone := lifecycle.Snapshot{Gone: true}
		err = f.o.Ledger.Journal(f.ctx, entry.Spec, func(current *v1alpha1.CDEventSubject) (*ledger.Change, error) {
			if current == nil {
				return nil, nil //nolint:nilnil // another leader has seen to it
			}
			memory, err := f.memory(current)
			if err != nil {
				return nil, err
			}
			r := lifecycle.Next(f.rules, memory, gone, at)
			return &ledger.Change{Memory: r.Memory, Transitions: r.Transitions}, nil
		})
		if err != nil {
			return fmt.Errorf("journaling that %s (UID %s) is gone: %w", f.key, entry.Spec.UID, err)
		}
	}
	return nil
}

// follow folds the steps that show the same object, in one write. It returns how
// many it could use; none if the first must wait for a Revision.
func (f *fold) follow(first *Subject, steps []step) (int, error) {
	var used int
	var last lifecycle.Memory
	var changed bool
	spec := f.o.spec(f.key, first.UID)
	if f.doubtful && f.version(first.UID) == "" {
		// Nothing is known of it, and the cache may show what is long gone,
		// announced and forgotten.
		live, err := f.o.Kind.Live(f.ctx, f.key)
		if err != nil {
			return 0, fmt.Errorf("asking the API server for %s, which the ledger does not know: %w", f.key, err)
		}
		if live != first.UID {
			f.lagging = true
			return f.span(first, steps), nil
		}
	}
	err := f.o.Ledger.Journal(f.ctx, spec, func(current *v1alpha1.CDEventSubject) (*ledger.Change, error) {
		p, err := f.pass(current, first, steps)
		if err != nil {
			return nil, err
		}
		used, last, changed = p.used, p.memory, p.changed
		if p.used == 0 || !p.changed {
			return nil, nil //nolint:nilnil // nothing to write is no error
		}
		return &ledger.Change{Memory: p.memory, Transitions: p.transitions, At: f.now}, nil
	})
	if err != nil || used == 0 {
		return 0, err
	}
	f.waiting[first.UID] = last.Waits
	if changed || f.saved(first.UID, last) {
		// The ledger's is as good, and kept anyway. A silent write leaves the sequence
		// as it is, so that an older memory would still seem to be ahead.
		f.memories[string(first.UID)] = unsaved{}
		return used, nil
	}
	f.memories[string(first.UID)] = unsaved{memory: last, ahead: f.version(first.UID)}
	return used, nil
}

// saved says whether the ledger holds all of a memory, but for the versions of what
// was seen last: those are in the history itself.
func (f *fold) saved(uid types.UID, m lifecycle.Memory) bool {
	for _, s := range f.entries() {
		if s.Spec.UID != uid || s.Status.Memory == nil {
			continue
		}
		has, err := stored(s)
		if err != nil {
			return false // it is told where it is used
		}
		has.Seen, m.Seen, m.Waits, m.NamespaceLabels = nil, nil, nil, has.NamespaceLabels
		return reflect.DeepEqual(has, m)
	}
	return false
}

// replay journals the present state for the sources that asked for it and were not
// told yet.
func (f *fold) replay() error {
	for _, entry := range f.entries() {
		due, _, err := f.due(entry)
		if err != nil {
			return err
		}
		if len(due) == 0 {
			continue
		}
		err = f.o.Ledger.Journal(f.ctx, entry.Spec, func(current *v1alpha1.CDEventSubject) (*ledger.Change, error) {
			due, memory, err := f.due(current)
			if err != nil || len(due) == 0 {
				return nil, err
			}
			r := lifecycle.Replay(memory, f.now)
			if len(r.Transitions) == 0 {
				return nil, nil //nolint:nilnil // it will be told when it is deployed
			}
			return &ledger.Change{Memory: r.Memory, Transitions: r.Transitions, Replay: due}, nil
		})
		if err != nil {
			return fmt.Errorf("journaling the present state of %s for new sources: %w", f.key, err)
		}
	}
	return nil
}

// due names the sources that an object's present state is to be told to.
func (f *fold) due(current *v1alpha1.CDEventSubject) (sources []types.UID, memory lifecycle.Memory, err error) {
	if current == nil || current.Status.Removed {
		return nil, memory, nil
	}
	sources = f.o.Ledger.Replays(current, func() ledger.Labels {
		memory, err = f.memory(current)
		return ledger.Labels{Own: memory.Labels, Namespace: memory.NamespaceLabels}
	})
	return sources, memory, err
}

// span counts the steps that show the same object.
func (f *fold) span(first *Subject, steps []step) int {
	for i, s := range steps {
		if subject := f.compose(s); subject == nil || subject.UID != first.UID {
			return i
		}
	}
	return len(steps)
}

// version is the ledger's state of one object, as far as memory is concerned:
// acknowledgements do not change it.
func (f *fold) version(uid types.UID) string {
	for _, s := range f.entries() {
		if s.Spec.UID == uid {
			return generation(s)
		}
	}
	return ""
}

func generation(s *v1alpha1.CDEventSubject) string {
	return fmt.Sprintf("%s/%d", s.UID, s.Status.Sequence)
}

// memory is the newest that is known of an object: what is unsaved counts only
// while the ledger is where it was.
func (f *fold) memory(current *v1alpha1.CDEventSubject) (lifecycle.Memory, error) {
	u, ok := f.memories[string(current.Spec.UID)] // of steps before, in this fold
	if !ok {
		u, ok = f.unsaved[string(current.Spec.UID)]
	}
	switch {
	case !ok, u.ahead == "", current.Status.Removed:
		// What is buried stays so, whatever we have seen before we knew.
	case u.ahead == generation(current):
		return u.memory, nil
	default:
		return lifecycle.Memory{}, errOvertaken
	}
	m, err := stored(current)
	if err != nil {
		return m, err
	}
	m.Waits = f.waiting[current.Spec.UID]
	return m, nil
}

// stored is the memory that the ledger holds.
func stored(current *v1alpha1.CDEventSubject) (lifecycle.Memory, error) {
	var m lifecycle.Memory
	if current.Status.Memory == nil {
		return m, nil
	}
	if err := json.Unmarshal(current.Status.Memory.Raw, &m); err != nil {
		return m, fmt.Errorf("the memory in CDEventSubject %s cannot be read, as happens after a downgrade; no events about this object are sent until the newer version runs again: %w", current.Name, err)
	}
	return m, nil
}

// pass is one fold of an object's steps over one state of the ledger.
type pass struct {
	memory      lifecycle.Memory
	transitions []lifecycle.Transition
	used        int
	// changed says that there is something to write.
	changed bool
}

func (f *fold) pass(current *v1alpha1.CDEventSubject, first *Subject, steps []step) (pass, error) {
	var p pass
	f.wake = time.Time{}
	known := current != nil
	if known {
		var err error
		if p.memory, err = f.memory(current); err != nil {
			return p, err
		}
		if p.memory.Removed {
			// Buried by mistake is not possible: the API server was asked. What
			// comes after may be another object of the same name.
			p.used = f.span(first, steps)
			return p, nil
		}
	}
	saved := p.memory
	for _, s := range steps {
		subject := f.compose(s)
		if subject == nil || subject.UID != first.UID {
			break
		}
		snapshot, news := f.fresh(p.memory, subject.Snapshot, s)
		if !news {
			p.used++
			continue
		}
		r, err := f.decide(p.memory, !known && subject.Created.Before(f.since), snapshot, s)
		if err != nil {
			return p, err
		}
		if len(r.Missing) > 0 {
			break
		}
		p.memory, f.wake = r.Memory, r.WakeAt
		p.transitions = append(p.transitions, r.Transitions...)
		p.changed = p.changed || !known || len(r.Transitions) > 0 || r.Memory.Outgrew(saved)
		known = true
		p.used++
	}
	return p, nil
}

// decide asks the lifecycle, and asks again with what the API server says where
// a Revision does not come.
func (f *fold) decide(m lifecycle.Memory, baseline bool, s lifecycle.Snapshot, from step) (lifecycle.Result, error) {
	next := func() lifecycle.Result {
		if baseline {
			return lifecycle.Baseline(s)
		}
		return lifecycle.Next(f.rules, m, s, from.at)
	}
	r := next()
	if len(r.Missing) == 0 {
		return r, nil
	}
	// It may have come after the Route that names it.
	s.Revisions = f.know(from.parts, f.later(from)...)
	if r = next(); len(r.Missing) == 0 || f.patient {
		return r, nil
	}
	fetched, err := f.o.Kind.Fetch(f.ctx, f.key.Namespace, r.Missing)
	if err != nil {
		return r, fmt.Errorf("fetching the Revisions %v that get traffic of %s: %w", r.Missing, f.key, err)
	}
	s.Revisions = f.know(from.parts, append(f.later(from), fetched)...)
	s.Unheld = map[string]bool{}
	for _, name := range r.Missing {
		s.Unheld[name] = true
	}
	return next(), nil
}

// later returns the parts after each step that brought a Revision after this one, in
// order: what is missing may have come soon after.
func (f *fold) later(from step) []Parts {
	var out []Parts
	after := false
	for _, s := range f.steps {
		if p := s.update.part; after && !p.Root && p.Owner == "" && p.Value != nil {
			out = append(out, s.parts)
		}
		after = after || s.update.id == from.update.id
	}
	return out
}

// know returns the Revisions of an object at one moment, with those that came
// later or had to be fetched: as far as they are its own. One of the same name
// may be left of an object that is gone.
func (f *fold) know(at Parts, more ...Parts) map[string]lifecycle.Revision {
	out := map[string]lifecycle.Revision{}
	for _, parts := range append([]Parts{at}, more...) {
		with := maps.Clone(at)
		for name, p := range parts {
			if !p.Root && p.Owner == "" {
				with[name] = p
			}
		}
		for name, r := range f.o.Kind.Compose(with).Snapshot.Revisions {
			if !out[name].Ready {
				out[name] = r
			}
		}
	}
	return out
}
