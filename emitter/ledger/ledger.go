// Package ledger stores what is remembered of each watched object, and the events that are
// pending for each source, in CDEventSubjects of the controller's namespace.
//
// Its invariant: one compare-and-swap journals a transition, the memory that it leads to
// and its recipients, before any event is sent. A transition leaves the journal only when
// every recipient has acknowledged it, or when it is dropped with a counted reason. Two
// leaders, a stale cache or a crash between any two steps can neither journal a transition
// twice nor skip one.
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

// Client is the part of the API that the ledger needs.
type Client interface {
	Create(ctx context.Context, s *v1alpha1.CDEventSubject, opts metav1.CreateOptions) (*v1alpha1.CDEventSubject, error)
	Update(ctx context.Context, s *v1alpha1.CDEventSubject, opts metav1.UpdateOptions) (*v1alpha1.CDEventSubject, error)
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*v1alpha1.CDEventSubject, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// Router chooses the recipients of a transition. It is asked once, when the transition is
// journaled.
type Router interface {
	Recipients(subject v1alpha1.CDEventSubjectSpec, labels Labels, t lifecycle.Transition) []Recipient
	// NamespaceLabels returns the labels of a namespace, and false if there is no such
	// namespace. If it fails, nothing is journaled.
	NamespaceLabels(namespace string) (labels map[string]string, exists bool, err error)
	// Replays names the sources that want the present state of an object and have not
	// received it. It calls labels only if there may be such a source.
	Replays(subject v1alpha1.CDEventSubjectSpec, replayed []types.UID, labels func() Labels) []types.UID
	// Exists says whether a source exists.
	Exists(source types.UID) bool
	// Operator says whether a source is the operator's. A tenant's sources take no room
	// from it.
	Operator(source types.UID) bool
}

// Labels are what sources select objects by. They are journaled, because the object and its
// namespace may be gone when an event is sent.
type Labels struct {
	Own, Namespace map[string]string
}

// LabelsOf returns the labels that a memory has.
func LabelsOf(m Memory) Labels {
	own, namespace := m.Selection()
	return Labels{Own: own, Namespace: namespace}
}

// Memory is what the kind of an object remembers of it. The ledger stores it, and does not
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

// Recipient is a source that receives an event, and how the event is rendered for it.
type Recipient struct {
	Source  types.UID
	Profile v1alpha1.Profile
	// Undecided says that it is not known yet whether the event passes the source's
	// filters; see v1alpha1.Recipient.
	Undecided bool
	// Rank orders sources if there is no room for all. The highest rank is left out first.
	Rank int
	// Refused, if set, says why the source does not receive an event that it selects, or
	// may select.
	Refused *Refusal
}

// Refusal says why a source does not receive an event. Only the metric counts it.
type Refusal struct {
	// Reason is one of DroppedReasons.
	Reason string
	Err    error
}

// Key names a watched object, whichever UID it has.
type Key struct {
	Kind, Namespace, Name string
}

// NamespacedName is the part of the key that decides which replica leads.
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

	mu       sync.RWMutex
	subjects map[string]*subject
	byKey    map[Key]map[string]*subject
	// discarded says that no acknowledgement is written any more.
	discarded bool

	// acks takes what is to be written. It is the ledger's own queue, which Run works
	// off, unless WithAcks sets another.
	acks  Acks
	queue ackQueue
	// The callbacks that OnPending, OnLeftOut and OnRefused set.
	notify  func(Key, types.UID)
	leftOut func(Key, []types.UID)
	refused func(Key, types.UID, Refusal)
}

// Metrics counts what happens to writes and events.
type Metrics interface {
	// Conflict counts a write that conflicted with another one.
	Conflict()
	// Refused counts a write that the API server rejected or did not confirm. It is
	// retried.
	Refused()
	// Dropped counts events that are dropped on purpose.
	Dropped(reason string, n int64)
}

// subject is what this process knows of one CDEventSubject.
type subject struct {
	name string
	key  Key
	// writing is held during a write. Otherwise, writes of one process would conflict.
	writing sync.Mutex

	// The rest is guarded by Ledger.mu.

	// object is the newest known state, nil if there is none. It is never changed in
	// place.
	object *v1alpha1.CDEventSubject
	// missing says that somebody deleted the object although it is still needed. The next
	// write puts it back.
	missing bool
	// deleted is the UID of an object that this process has deleted, until the informer
	// has seen it go. Updates of this object are stale.
	deleted types.UID
	// finished is since when no event has been pending, if the watched object is gone.
	finished time.Time
	// acked is what each source has acknowledged, as far as it is not written yet.
	acked map[types.UID]int64
	// given counts what was dropped and is not written yet, by reason.
	given map[string]int64
}

// New returns an empty ledger. The informer's events (Observe) and its own writes fill it.
func New(client Client, router Router, metrics Metrics, options ...Option) *Ledger {
	l := &Ledger{
		client:   client,
		router:   router,
		metrics:  metrics,
		subjects: map[string]*subject{},
		byKey:    map[Key]map[string]*subject{},
		queue:    newAckQueue(),
		notify:   func(Key, types.UID) {},
		leftOut:  func(Key, []types.UID) {},
		refused:  func(Key, types.UID, Refusal) {},
	}
	l.acks = l.queue
	for _, o := range options {
		o(l)
	}
	return l
}

// Option changes how a ledger works.
type Option func(*Ledger)

// WithAcks adds what is to be written to a queue of the caller, who calls WriteAcks for each
// name. Run does not write acknowledgements then.
func WithAcks(q Acks) Option { return func(l *Ledger) { l.acks = q } }

// OnPending sets a function that is called when an event becomes pending for a source. Call it
// before the first write.
func (l *Ledger) OnPending(f func(Key, types.UID)) { l.notify = f }

// OnLeftOut sets a function that is called with the sources for which an event is not
// journaled, because its forms are too many or too large. Call it before the first write.
func (l *Ledger) OnLeftOut(f func(Key, []types.UID)) { l.leftOut = f }

// OnRefused sets a function that is called for each source that an event was refused to.
// Call it before the first write.
func (l *Ledger) OnRefused(f func(Key, types.UID, Refusal)) { l.refused = f }

// Change is what an observer wants the ledger to write.
type Change struct {
	Memory      Memory
	Transitions []lifecycle.Transition
	// Conditions are all conditions of the object, apart from Delivered.
	Conditions []metav1.Condition
	// At is when the change was decided.
	At time.Time
	// Replay, if not empty, names the only recipients.
	Replay []types.UID
}

// Replays names the sources that are still to receive the present state of an object.
func (l *Ledger) Replays(current *v1alpha1.CDEventSubject, labels func() Labels) []types.UID {
	return l.router.Replays(current.Spec, current.Status.Replayed, labels)
}

// Decide receives the newest known state, nil if there is none, and returns what to write,
// nil for nothing. If another writer was faster, it is called again with the state that the
// API server has. It must then start afresh.
type Decide func(current *v1alpha1.CDEventSubject) (*Change, error)

// Journal writes what decide wants, by compare-and-swap.
func (l *Ledger) Journal(ctx context.Context, spec v1alpha1.CDEventSubjectSpec, decide Decide) error {
	return l.write(ctx, l.subject(Name(spec), KeyOf(spec)), spec, decide)
}

// maxConflicts is how often a write may conflict before it is retried later.
const maxConflicts = 8

func (l *Ledger) write(ctx context.Context, sub *subject, spec v1alpha1.CDEventSubjectSpec, decide Decide) error {
	sub.writing.Lock()
	defer sub.writing.Unlock()
	for range maxConflicts {
		e, err := l.prepare(sub, spec, decide)
		if err != nil || e == nil {
			return err
		}
		written, err := l.put(ctx, e)
		switch {
		case apierrors.IsNotFound(err) && e.current != nil && !finished(e.current):
			// Deleted by hand, or collected while this process was cut off. The informer
			// will tell which, and what its last state was.
			l.metrics.Refused()
			return fmt.Errorf("writing CDEventSubject %s, which was deleted: waiting for its last state: %w", sub.name, err)
		case err == nil:
			l.settle(sub, e, written)
			return nil
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
			l.metrics.Conflict()
			if err := l.reload(ctx, sub); err != nil {
				return err
			}
		default:
			if ctx.Err() == nil { // otherwise, this process is stopping
				l.metrics.Refused()
			}
			return fmt.Errorf("writing CDEventSubject %s: %w", sub.name, err)
		}
	}
	return fmt.Errorf("writing CDEventSubject %s: conflicted with %d other writers in a row; retrying later", sub.name, maxConflicts)
}

// prepare makes the next state of a subject. It returns nil if there is nothing to write.
func (l *Ledger) prepare(sub *subject, spec v1alpha1.CDEventSubjectSpec, decide Decide) (*edit, error) {
	l.mu.RLock()
	current, acked, given, missing := sub.object, maps.Clone(sub.acked), maps.Clone(sub.given), sub.missing
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
		// Acknowledgements of events that are no longer pending need no write.
		l.forgetAcks(sub, acked, given)
		return nil, nil //nolint:nilnil // nothing to write is no error
	}
	e.finish(l.router.Operator)
	return e, nil
}

// put writes the next state. It returns nil if there is nothing to keep.
func (l *Ledger) put(ctx context.Context, e *edit) (*v1alpha1.CDEventSubject, error) {
	switch {
	case e.done() && e.current == nil:
		return nil, nil //nolint:nilnil // the object came and went within one write, and no source selects it
	case e.current == nil:
		return l.client.Create(ctx, e.next, metav1.CreateOptions{})
	case e.missing:
		// Without it, the object would be announced again.
		if e.next.Status.Created == nil {
			e.next.Status.Created = e.current.CreationTimestamp.DeepCopy()
		}
		e.next.ObjectMeta = metav1.ObjectMeta{Name: e.next.Name}
		return l.client.Create(ctx, e.next, metav1.CreateOptions{})
	}
	return l.client.Update(ctx, e.next, metav1.UpdateOptions{})
}

// settle takes over what was written, and reports pending and dropped events.
func (l *Ledger) settle(sub *subject, e *edit, written *v1alpha1.CDEventSubject) {
	if written != nil {
		written.ManagedFields = nil // they are never read, and take memory
	}
	l.mu.Lock()
	sub.missing = false
	if written != nil && (sub.object == nil || newer(written.ResourceVersion, sub.object.ResourceVersion)) {
		sub.object = written
		l.keepLocked(sub)
	}
	l.dropLocked(sub)
	l.mu.Unlock()
	l.forgetAcks(sub, e.acked, e.given)
	for reason, n := range e.lost {
		l.metrics.Dropped(reason, n)
	}
	for _, r := range e.refused {
		l.metrics.Dropped(r.Refused.Reason, 1)
		l.refused(sub.key, r.Source, *r.Refused)
	}
	if written != nil {
		key := KeyOf(written.Spec)
		for source := range e.pending {
			l.notify(key, source)
		}
		if len(e.leftOut) > 0 {
			l.leftOut(key, e.leftOut)
		}
	}
}

// forgetAcks removes what has been written.
func (l *Ledger) forgetAcks(sub *subject, acked map[types.UID]int64, given map[string]int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for source, seq := range acked {
		if sub.acked[source] <= seq {
			delete(sub.acked, source)
		}
	}
	for reason, n := range given {
		if sub.given[reason] -= n; sub.given[reason] <= 0 {
			delete(sub.given, reason)
		}
	}
	l.dropLocked(sub)
}

// reload reads a subject from the API server.
func (l *Ledger) reload(ctx context.Context, sub *subject) error {
	object, err := l.client.Get(ctx, sub.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		object, err = nil, nil
	}
	if err != nil {
		return fmt.Errorf("reading CDEventSubject %s after a conflict: %w", sub.name, err)
	}
	l.mu.Lock()
	// Its resourceVersion does not matter: a restored etcd starts lower.
	if object == nil || sub.object != nil && newer(sub.object.ResourceVersion, object.ResourceVersion) {
		clear(sub.acked)
		clear(sub.given)
	}
	sub.object, sub.missing = object, false
	sub.unlearnLocked()
	l.mu.Unlock()
	l.remind(object)
	return nil
}

// unlearnLocked forgets acknowledgements of events that the object does not have, as after
// restoring a backup. Other events will get the same numbers.
func (sub *subject) unlearnLocked() {
	if sub.object == nil {
		return
	}
	maps.DeleteFunc(sub.acked, func(_ types.UID, seq int64) bool { return seq > sub.object.Status.Sequence })
}

// Discard stops writing acknowledgements: after the API server went back in time, this
// process remembers events that may never have happened.
func (l *Ledger) Discard() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.discarded = true
	for _, sub := range l.subjects {
		clear(sub.acked)
		clear(sub.given)
	}
}

// remind reports all pending events of an object that another process wrote. That process
// may be gone before it has sent them.
func (l *Ledger) remind(s *v1alpha1.CDEventSubject) {
	if s == nil {
		return
	}
	seen := map[types.UID]bool{}
	for _, j := range s.Status.Journal {
		for _, r := range j.Recipients {
			if !seen[r.Source] {
				seen[r.Source] = true
				l.notify(KeyOf(s.Spec), r.Source)
			}
		}
	}
}

// newer says whether the resourceVersion a is later than b. One that cannot be compared
// counts as newer, because it came from the API server.
func newer(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || c > 0
}

// subject returns the subject of that name. It adds one if there is none.
func (l *Ledger) subject(name string, key Key) *subject {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sub, ok := l.subjects[name]; ok {
		return sub
	}
	sub := &subject{name: name, key: key, acked: map[types.UID]int64{}, given: map[string]int64{}}
	l.keepLocked(sub)
	return sub
}

func (l *Ledger) keepLocked(sub *subject) {
	l.subjects[sub.name] = sub
	if l.byKey[sub.key] == nil {
		l.byKey[sub.key] = map[string]*subject{}
	}
	l.byKey[sub.key][sub.name] = sub
}

// dropLocked removes a subject that holds nothing.
func (l *Ledger) dropLocked(sub *subject) {
	if sub.object != nil || sub.deleted != "" || len(sub.acked)+len(sub.given) > 0 {
		return
	}
	delete(l.subjects, sub.name)
	if delete(l.byKey[sub.key], sub.name); len(l.byKey[sub.key]) == 0 {
		delete(l.byKey, sub.key)
	}
}
