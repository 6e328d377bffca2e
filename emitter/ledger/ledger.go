// Package ledger keeps what was seen of each watched object and what is still
// owed to whom, in CDEventSubjects of the controller's namespace.
//
// Its invariant: a transition is journaled, together with the memory that it
// leads to and with its recipients, by one compare-and-swap before anything of
// it is sent; it leaves the journal only when every recipient has acknowledged
// it or when it was given up with a counted reason. Two leaders, a stale cache
// or a crash between any two steps cannot journal a transition twice or skip one.
package ledger

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Client is the part of the API that the ledger is kept by.
type Client interface {
	Create(ctx context.Context, s *v1alpha1.CDEventSubject, opts metav1.CreateOptions) (*v1alpha1.CDEventSubject, error)
	Update(ctx context.Context, s *v1alpha1.CDEventSubject, opts metav1.UpdateOptions) (*v1alpha1.CDEventSubject, error)
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*v1alpha1.CDEventSubject, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// Router says who is to be told of a transition. It is asked once, when the
// transition is journaled.
type Router interface {
	Recipients(subject v1alpha1.CDEventSubjectSpec, labels Labels, t lifecycle.Transition) []Recipient
	// NamespaceLabels are those of a namespace; false where there is none. It fails
	// where that cannot be found out: nothing is journaled then.
	NamespaceLabels(namespace string) (labels map[string]string, exists bool, err error)
	// Replays names the sources that want to be told of the present state of an
	// object, without those that were told already. It asks for labels only where
	// there is such a source.
	Replays(subject v1alpha1.CDEventSubjectSpec, told []types.UID, labels func() Labels) []types.UID
	// Exists says whether there is such a source.
	Exists(source types.UID) bool
	// Operator says whether a source is the operator's: those of one tenant's namespace
	// take no room from it.
	Operator(source types.UID) bool
}

// Labels are what sources select by. They were journaled with the object, as it
// and its namespace may be gone by the time it is announced.
type Labels struct {
	Own, Namespace map[string]string
}

// LabelsOf returns the labels that a memory has.
func LabelsOf(m Memory) Labels {
	own, namespace := m.Selection()
	return Labels{Own: own, Namespace: namespace}
}

// Memory is what the kind of an object remembers of it. The ledger stores it and does not
// look inside.
type Memory interface {
	// Gone says that the object is gone. Nothing is journaled about it after that.
	Gone() bool
	// Selection returns the labels that sources select by: the object's own and those
	// of its namespace.
	Selection() (own, namespace map[string]string)
	// Stored is what is written as JSON. A namespace that is not nil replaces the
	// labels of the namespace.
	Stored(namespace map[string]string) any
}

// Recipient is a source that is to be told, and what its event looks like.
type Recipient struct {
	Source  types.UID
	Profile v1alpha1.Profile
	// Undecided says that it could not be found out whether the source wants to
	// be told; see v1alpha1.Recipient.
	Undecided bool
	// Rank orders the sources where not all can be told: those with a higher one are
	// left out first.
	Rank int
	// Refused, if set, says why the source is not told, though it has chosen the event
	// or may have.
	Refused *Refusal
}

// Refusal is why a source is not told of an event. It is counted in the metric only.
type Refusal struct {
	// Reason is one of the reasons for which events are given up.
	Reason string
	Err    error
}

// Key names a watched object, whichever UID it has.
type Key struct {
	Kind, Namespace, Name string
}

// NamespacedName is the part of the key that leadership is decided by.
func (k Key) NamespacedName() types.NamespacedName {
	return types.NamespacedName{Namespace: k.Namespace, Name: k.Name}
}

func (k Key) String() string { return k.Kind + " " + k.Namespace + "/" + k.Name }

// KeyOf is the key of a subject.
func KeyOf(s v1alpha1.CDEventSubjectSpec) Key {
	return Key{Kind: s.Kind, Namespace: s.Namespace, Name: s.Name}
}

// Name is the name of the CDEventSubject of a watched object.
func Name(s v1alpha1.CDEventSubjectSpec) string {
	return strings.ToLower(s.Kind) + "-" + string(s.UID)
}

// Ledger reads from memory and writes through to the API server.
type Ledger struct {
	client  Client
	router  Router
	metrics Metrics

	mu    sync.RWMutex
	lines map[string]*line
	byKey map[Key]map[string]*line
	// discarded says that no acknowledgement is to be written any more.
	discarded bool

	acks *ackQueue
	// owed is told whenever something new is owed.
	owed func(Key, types.UID)
	// leftOut is told of the sources that an event could not be journaled for.
	leftOut func(Key, []types.UID)
	// refused is told of each source that is not told of an event that was journaled.
	refused func(Key, types.UID, Refusal)
}

// Metrics counts what a platform team wants to see of the ledger.
type Metrics interface {
	// Conflict is counted when a write met another one.
	Conflict()
	// Refused is counted when the API server did not take a write, or did not say
	// that it had. It is tried again.
	Refused()
	// Dropped is counted for every event that is given up on purpose.
	Dropped(reason string, n int64)
}

// line is one CDEventSubject, as far as it is known here.
type line struct {
	name string
	key  Key
	// writing is held across a write, so that writes of one process do not
	// conflict with each other.
	writing sync.Mutex

	// The rest is guarded by Ledger.mu.

	// object is the newest state that is known; nil when there is none. It is
	// never changed in place.
	object *v1alpha1.CDEventSubject
	// missing says that somebody deleted the entry though it is still needed. It
	// is put back with the next write.
	missing bool
	// deleted is the UID of an entry that was deleted here while the informer
	// does not know it yet: what it still says of it is of the past.
	deleted types.UID
	// finished is since when nothing has been owed about an object that is gone.
	finished time.Time
	// acked is what was acknowledged and is not written yet, by source.
	acked map[types.UID]int64
	// given is what was given up and is not written yet, by reason.
	given map[string]int64
}

// New returns an empty ledger. It is filled by the informer's events (Observe)
// and by its own writes.
func New(client Client, router Router, metrics Metrics) *Ledger {
	return &Ledger{
		client:  client,
		router:  router,
		metrics: metrics,
		lines:   map[string]*line{},
		byKey:   map[Key]map[string]*line{},
		acks:    newAckQueue(),
		owed:    func(Key, types.UID) {},
		leftOut: func(Key, []types.UID) {},
		refused: func(Key, types.UID, Refusal) {},
	}
}

// OnOwed sets who is told that something is owed to a source. It must be set
// before the first write.
func (l *Ledger) OnOwed(f func(Key, types.UID)) { l.owed = f }

// OnLeftOut sets who is told of the sources that an event could not be journaled
// for, as their forms are too many or too large. It must be set before the first write.
func (l *Ledger) OnLeftOut(f func(Key, []types.UID)) { l.leftOut = f }

// OnRefused sets who is told of the sources that an event was refused to. It must be set
// before the first write.
func (l *Ledger) OnRefused(f func(Key, types.UID, Refusal)) { l.refused = f }

// Change is what an observer wants to have written.
type Change struct {
	Memory      Memory
	Transitions []lifecycle.Transition
	// Conditions are what the user should know of the object, all of them.
	Conditions []metav1.Condition
	// At is when it was decided.
	At time.Time
	// Replay, if not empty, names the only sources that are to be told.
	Replay []types.UID
}

// Replays names the sources that are still to be told of the present state of an
// object.
func (l *Ledger) Replays(current *v1alpha1.CDEventSubject, labels func() Labels) []types.UID {
	return l.router.Replays(current.Spec, current.Status.Replayed, labels)
}

// Decide is given the newest known entry, nil if there is none, and returns
// what to write, nil for nothing. It is called again with the entry that the
// API server has when another writer was faster, and must start afresh then.
type Decide func(current *v1alpha1.CDEventSubject) (*Change, error)

// Journal writes what decide wants, by compare-and-swap.
func (l *Ledger) Journal(ctx context.Context, spec v1alpha1.CDEventSubjectSpec, decide Decide) error {
	return l.write(ctx, l.line(Name(spec), KeyOf(spec)), spec, decide)
}

// maxConflicts bounds how often one write meets another before it is put back.
const maxConflicts = 8

func (l *Ledger) write(ctx context.Context, ln *line, spec v1alpha1.CDEventSubjectSpec, decide Decide) error {
	ln.writing.Lock()
	defer ln.writing.Unlock()
	for range maxConflicts {
		e, err := l.prepare(ln, spec, decide)
		if err != nil || e == nil {
			return err
		}
		written, err := l.put(ctx, e)
		switch {
		case apierrors.IsNotFound(err) && e.current != nil && !finished(e.current):
			// Deleted by hand, or finished and collected while we were cut off: the
			// informer tells which, and what it was last.
			l.metrics.Refused()
			return fmt.Errorf("writing CDEventSubject %s, which was deleted: waiting for its last state: %w", ln.name, err)
		case err == nil:
			l.settle(ln, e, written)
			return nil
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
			l.metrics.Conflict()
			if err := l.reload(ctx, ln); err != nil {
				return err
			}
		default:
			if ctx.Err() == nil { // else it is us who gave up
				l.metrics.Refused()
			}
			return fmt.Errorf("writing CDEventSubject %s: %w", ln.name, err)
		}
	}
	return fmt.Errorf("writing CDEventSubject %s: conflicted with %d other writers in a row; retrying later", ln.name, maxConflicts)
}

// prepare makes the next state of a line, or nil when there is nothing to write.
func (l *Ledger) prepare(ln *line, spec v1alpha1.CDEventSubjectSpec, decide Decide) (*edit, error) {
	l.mu.RLock()
	current, acked, given, missing := ln.object, maps.Clone(ln.acked), maps.Clone(ln.given), ln.missing
	l.mu.RUnlock()

	e := newEdit(current, spec, acked, given)
	e.missing, e.changed = missing, e.changed || missing
	if decide != nil {
		change, err := decide(current)
		if err != nil {
			return nil, err
		}
		if change != nil {
			if err := e.journal(*change, l.router); err != nil {
				return nil, fmt.Errorf("journaling transitions of %s %s/%s: %w", spec.Kind, spec.Namespace, spec.Name, err)
			}
		}
	}
	if !e.changed {
		// Acknowledgements of what is not owed any more need no write.
		l.forgetAcks(ln, acked, given)
		return nil, nil //nolint:nilnil // nothing to write is no error
	}
	e.finish(l.router.Operator)
	return e, nil
}

// put writes the next state. It returns nil where there is nothing to keep.
func (l *Ledger) put(ctx context.Context, e *edit) (*v1alpha1.CDEventSubject, error) {
	switch {
	case e.done() && e.current == nil:
		return nil, nil //nolint:nilnil // came and went within one write, and nobody was to be told
	case e.current == nil:
		return l.client.Create(ctx, e.next, metav1.CreateOptions{})
	case e.missing:
		// Without it, the object would be announced anew.
		if e.next.Status.Created == nil {
			e.next.Status.Created = e.current.CreationTimestamp.DeepCopy()
		}
		e.next.ObjectMeta = metav1.ObjectMeta{Name: e.next.Name}
		return l.client.Create(ctx, e.next, metav1.CreateOptions{})
	}
	return l.client.Update(ctx, e.next, metav1.UpdateOptions{})
}

// settle takes over what was written and tells who is owed something new.
func (l *Ledger) settle(ln *line, e *edit, written *v1alpha1.CDEventSubject) {
	if written != nil {
		written.ManagedFields = nil // kept for as long as the object, for nobody
	}
	l.mu.Lock()
	ln.missing = false
	if written != nil && (ln.object == nil || newer(written.ResourceVersion, ln.object.ResourceVersion)) {
		ln.object = written
		l.keepLocked(ln)
	}
	l.dropLocked(ln)
	l.mu.Unlock()
	l.forgetAcks(ln, e.acked, e.given)
	for reason, n := range e.lost {
		l.metrics.Dropped(reason, n)
	}
	for _, r := range e.refused {
		l.metrics.Dropped(r.Refused.Reason, 1)
		l.refused(ln.key, r.Source, *r.Refused)
	}
	if written != nil {
		key := KeyOf(written.Spec)
		for source := range e.owed {
			l.owed(key, source)
		}
		if len(e.leftOut) > 0 {
			l.leftOut(key, e.leftOut)
		}
	}
}

// forgetAcks removes what has been written from what is to be written.
func (l *Ledger) forgetAcks(ln *line, acked map[types.UID]int64, given map[string]int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for source, seq := range acked {
		if ln.acked[source] <= seq {
			delete(ln.acked, source)
		}
	}
	for reason, n := range given {
		if ln.given[reason] -= n; ln.given[reason] <= 0 {
			delete(ln.given, reason)
		}
	}
	l.dropLocked(ln)
}

// reload reads a line from the API server itself.
func (l *Ledger) reload(ctx context.Context, ln *line) error {
	object, err := l.client.Get(ctx, ln.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		object, err = nil, nil
	}
	if err != nil {
		return fmt.Errorf("reading CDEventSubject %s after a conflict: %w", ln.name, err)
	}
	l.mu.Lock()
	// Whatever its resourceVersion is: a restored etcd starts lower.
	if object == nil || ln.object != nil && newer(ln.object.ResourceVersion, object.ResourceVersion) {
		clear(ln.acked)
		clear(ln.given)
	}
	ln.object, ln.missing = object, false
	ln.unlearnLocked()
	l.mu.Unlock()
	l.remind(object)
	return nil
}

// unlearnLocked lets go of acknowledgements of what the entry does not know, as after
// restoring a backup: the same numbers will be those of other events.
func (ln *line) unlearnLocked() {
	if ln.object == nil {
		return
	}
	maps.DeleteFunc(ln.acked, func(_ types.UID, seq int64) bool { return seq > ln.object.Status.Sequence })
}

// Discard has nothing written any more of what was acknowledged: this process remembers
// what may never have happened.
func (l *Ledger) Discard() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.discarded = true
	for _, ln := range l.lines {
		clear(ln.acked)
		clear(ln.given)
	}
}

// remind tells of everything that is owed by an entry which somebody else wrote:
// the other may be gone before it has sent it.
func (l *Ledger) remind(s *v1alpha1.CDEventSubject) {
	if s == nil {
		return
	}
	told := map[types.UID]bool{}
	for _, j := range s.Status.Journal {
		for _, r := range j.Recipients {
			if !told[r.Source] {
				told[r.Source] = true
				l.owed(KeyOf(s.Spec), r.Source)
			}
		}
	}
}

// newer says whether a is a later resourceVersion than b. What cannot be
// compared is taken, as it came from the API server.
func newer(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || c > 0
}

// line returns the line of that name, a new one if need be.
func (l *Ledger) line(name string, key Key) *line {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ln, ok := l.lines[name]; ok {
		return ln
	}
	ln := &line{name: name, key: key, acked: map[types.UID]int64{}, given: map[string]int64{}}
	l.keepLocked(ln)
	return ln
}

func (l *Ledger) keepLocked(ln *line) {
	l.lines[ln.name] = ln
	if l.byKey[ln.key] == nil {
		l.byKey[ln.key] = map[string]*line{}
	}
	l.byKey[ln.key][ln.name] = ln
}

// dropLocked lets go of a line that holds nothing.
func (l *Ledger) dropLocked(ln *line) {
	if ln.object != nil || ln.deleted != "" || len(ln.acked)+len(ln.given) > 0 {
		return
	}
	delete(l.lines, ln.name)
	if delete(l.byKey[ln.key], ln.name); len(l.byKey[ln.key]) == 0 {
		delete(l.byKey, ln.key)
	}
}
