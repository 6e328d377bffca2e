// SPDX-License-Identifier: Apache-2.0

// Package ledger stores what is remembered of each watched object, and the events that are
// pending for each source, in CDEventSubjects of the controller's namespace.
//
// A CDEventSubject is journal, memory and fence of one object. Its invariant: one
// compare-and-swap journals a transition, the memory that it leads to and its recipients,
// before any event is sent. A transition leaves the journal only when every recipient has
// acknowledged it, or when it is dropped with a counted reason. Two leaders, a stale cache
// or a crash between any two steps can neither journal a transition twice nor skip one.
//
// An acknowledgement is held in memory, and written with the next write of its
// CDEventSubject, or a little later by a worker. A crash before that means that the same
// event is sent again, byte by byte.
package ledger

import (
	"context"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Client is the part of the API that the ledger needs.
type Client interface {
	Create(ctx context.Context, s *v1alpha1.CDEventSubject, opts metav1.CreateOptions) (*v1alpha1.CDEventSubject, error)
	Update(ctx context.Context, s *v1alpha1.CDEventSubject, opts metav1.UpdateOptions) (*v1alpha1.CDEventSubject, error)
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*v1alpha1.CDEventSubject, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// Memory is what the kind of an object remembers of it. The ledger stores it, and does not
// look inside.
type Memory interface {
	// Gone says that the object is gone. It stays so, whatever is journaled about it after that.
	Gone() bool
	// Selection returns the labels that sources select by: the object's own and those
	// of its namespace.
	Selection() (own, namespace map[string]string)
	// Stored is what is written as JSON. A namespace that is not nil replaces the
	// labels of the namespace.
	Stored(namespace map[string]string) any
}

// Leader says what this process leads for.
type Leader interface {
	IsLeaderFor(object types.NamespacedName) bool
}

// Informer is the informer for CDEventSubjects. cache.SharedIndexInformer implements it.
type Informer interface {
	// LastSyncResourceVersion is the version up to which it knows all CDEventSubjects. What it knows of them may still
	// be on its way to Observe and Forget.
	LastSyncResourceVersion() string
}

// Delivery sends what the ledger has journaled.
type Delivery interface {
	// Enqueue is called when an event about an object becomes pending for a source.
	Enqueue(key Key, source types.UID)
	// LeftOut is called with the sources for which an event is not journaled, because its rendering profiles are too
	// many or too large.
	LeftOut(key Key, sources []types.UID)
	// Refused is called for each source that an event was refused to.
	Refused(key Key, source types.UID, why Refusal)
}

// Key names a watched object, whichever UID it has. Kinds of two API groups may have the same name.
// The version takes no part: an object keeps its key when its kind is served in another.
type Key struct {
	Group, Kind, Namespace, Name string
}

// NamespacedName is the part of the key that decides which replica leads.
func (k Key) NamespacedName() types.NamespacedName {
	return types.NamespacedName{Namespace: k.Namespace, Name: k.Name}
}

// String is what logs show, for example "Cluster.cluster.x-k8s.io fleet/prod".
func (k Key) String() string {
	return schema.GroupKind{Group: k.Group, Kind: k.Kind}.String() + " " + k.NamespacedName().String()
}

// KeyOf is the key of a subject.
func KeyOf(s v1alpha1.CDEventSubjectSpec) Key {
	kind := schema.FromAPIVersionAndKind(s.APIVersion, s.Kind)
	return Key{Group: kind.Group, Kind: kind.Kind, Namespace: s.Namespace, Name: s.Name}
}

// Name is the name of the CDEventSubject of a watched object.
func Name(s v1alpha1.CDEventSubjectSpec) string { return s.ObjectName() }

// Ledger reads from memory and writes through to the API server.
type Ledger struct {
	client  Client
	router  Router
	metrics Metrics
	// tracer is nil if nothing is traced.
	tracer Tracer

	mu       sync.RWMutex
	subjects map[string]*subject
	byKey    map[Key][]*subject
	// held counts the subjects with acknowledgements that are not written, and released is
	// closed when there are fewer.
	held     int
	released chan struct{}
	// discarded says that no acknowledgement is written any more.
	discarded bool

	// journaling counts the writes of transitions that are under way.
	journaling atomic.Int64
	// acks takes the CDEventSubjects with acknowledgements to write. It is the ledger's own
	// queue, which the workers of Run take from, unless WithAcks sets another.
	acks    Acks
	queue   ackQueue // nil with another one
	maxHeld int
	// leader is nil if this process leads for all objects.
	leader Leader
	// informer is nil if it is not known what the watch has shown.
	informer Informer
	// owed is nil if this process keeps in memory what it owes.
	owed     *Owed
	delivery Delivery
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

// New returns an empty ledger. The informer's events (Observe) and its own writes fill it.
func New(client Client, router Router, metrics Metrics, options ...Option) *Ledger {
	l := &Ledger{
		client:   client,
		router:   router,
		metrics:  metrics,
		subjects: map[string]*subject{},
		byKey:    map[Key][]*subject{},
		released: make(chan struct{}),
		maxHeld:  maxHeld,
		delivery: noDelivery{},
	}
	for _, o := range options {
		o(l)
	}
	if l.acks == nil {
		l.queue = newAckQueue()
		l.acks = l.queue
	}
	return l
}

// Option changes how a ledger works.
type Option func(*Ledger)

// WithAcks adds the CDEventSubjects with acknowledgements to write to a queue of the caller,
// who calls WriteAcks for each name. Run writes no acknowledgements then.
func WithAcks(q Acks) Option { return func(l *Ledger) { l.acks = q } }

// WithMaxHeld sets at how many CDEventSubjects with acknowledgements that are not written Admit waits.
func WithMaxHeld(n int) Option { return func(l *Ledger) { l.maxHeld = n } }

// WithLeader sets what says whether this process leads for an object. By default, it leads for all.
func WithLeader(leader Leader) Option { return func(l *Ledger) { l.leader = leader } }

// WithInformer sets what calls Observe and Forget.
func WithInformer(i Informer) Option { return func(l *Ledger) { l.informer = i } }

func (l *Ledger) leads(object types.NamespacedName) bool {
	return l.leader == nil || l.leader.IsLeaderFor(object)
}

// UseDelivery has events sent. The delivery reads from the ledger, so it is made later. Call UseDelivery before the
// first write.
func (l *Ledger) UseDelivery(d Delivery) { l.delivery = d }

// noDelivery sends nothing.
type noDelivery struct{}

func (noDelivery) Enqueue(Key, types.UID)          {}
func (noDelivery) LeftOut(Key, []types.UID)        {}
func (noDelivery) Refused(Key, types.UID, Refusal) {}

// Discard stops writing acknowledgements: after the API server went back in time, this
// process remembers events that may never have happened.
func (l *Ledger) Discard() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.discarded = true
	for _, sub := range l.subjects {
		l.clearAcksLocked(sub)
	}
}
