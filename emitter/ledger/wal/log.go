// SPDX-License-Identifier: Apache-2.0

package wal

import (
	"container/list"
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/lru"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Client is the part of the API that the log needs.
type Client interface {
	Create(ctx context.Context, s *v1alpha1.CDEventSubject, opts metav1.CreateOptions) (*v1alpha1.CDEventSubject, error)
	Update(ctx context.Context, s *v1alpha1.CDEventSubject, opts metav1.UpdateOptions) (*v1alpha1.CDEventSubject, error)
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*v1alpha1.CDEventSubject, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
	List(ctx context.Context, opts metav1.ListOptions) (*v1alpha1.CDEventSubjectList, error)
}

// Options of a log. The zero value of each is replaced.
type Options struct {
	// Slots is the size of the ring, by default 256. All processes must have the same.
	Slots int
	// Direct says which CDEventSubjects have no place in the log: they are written as they are.
	Direct func(*v1alpha1.CDEventSubject) bool
	// Lean returns a CDEventSubject as it is cached.
	Lean func(*v1alpha1.CDEventSubject) *v1alpha1.CDEventSubject
	// Finished says that a CDEventSubject is not needed any more, so that nobody restores it.
	Finished func(*v1alpha1.CDEventSubject) bool
	// Leads says whether this process writes the checkpoints of an object.
	Leads func(types.NamespacedName) bool
	// Tell is called with each state that others have committed, in the order of their commits.
	Tell func(*v1alpha1.CDEventSubject)
	// Checkpoints bounds how fast checkpoints are written.
	Checkpoints Checkpoints
	// Attempt returns the identity of a new attempt.
	Attempt func() string
}

// Log implements ledger.Client. It passes on what has no place in the log.
type Log struct {
	client Client
	Options

	// appending is held during an append and during what must not happen at the same time.
	appending sync.Mutex
	// telling is held while Tell is called, so that the order is kept.
	telling sync.Mutex

	mu sync.Mutex
	// known says that this process has read the log.
	known   bool
	entries map[string]*entry
	ring    []slot
	// end is the last position that was folded.
	end int64
	// own is the position of an append on its way, 0 if there is none. The informer may see it before the answer comes.
	own int64
	// ahead are slots with positions that cannot be folded yet.
	ahead map[int64]*v1alpha1.CDEventSubject
	// listed says that what is folded now belongs to a list of everything: a CDEventSubject without a checkpoint does not exist.
	listed bool
	// listedAt is the resourceVersion of the last list of everything that this process has read after its start, empty if it has read none.
	listedAt string
	// doubts are the names of CDEventSubjects of which this process does not know whether they exist.
	doubts map[string]bool
	// asking counts requests under way that read CDEventSubjects, and gone are the UIDs of those that were deleted meanwhile.
	asking int
	gone   map[types.UID]bool
	// dropped are the revisions of the last states that this process has dropped, by name.
	dropped *lru.Cache
	// readings counts how often this process began to find out where the log ends; read is the last one that succeeded.
	readings, read int
	// gap is since when positions have been missing before those.
	gap time.Time
	// waiting are the changes that the next append takes.
	waiting []*request
	// untold are states of others that Tell has not received.
	untold []*v1alpha1.CDEventSubject
	// behind are the entries whose checkpoint lacks the newest state, the longest waiting first.
	behind *list.List
	pacing pacing
	wake   chan struct{}
}

// entry is what this process knows of one CDEventSubject.
type entry struct {
	// newest is the newest committed state. Its resourceVersion is that of the write that committed it.
	newest *v1alpha1.CDEventSubject
	// uid and version are those of the checkpoint, empty if there is none; stored is its revision.
	uid     types.UID
	version string
	stored  int64
	// floor is the highest revision that slots had when this process came to know an object that was not created by the log.
	floor int64
	// exposed says that the slot with the newest state was deleted by hand.
	exposed bool
	// position is that of the newest slot with the newest state, 0 if the checkpoint has it, or nowhere.
	position int64
	// since is when the newest state was committed, as far as this process knows.
	since time.Time
	place *list.Element
}

// nowhere is the position of a state that this process alone has.
const nowhere = -1

// request is one change that waits for its commit.
type request struct {
	next     *v1alpha1.CDEventSubject
	answered bool
	written  *v1alpha1.CDEventSubject
	err      error
}

// New returns a log. Observe and Forget tell it what an informer sees, and Start that the informer has seen the first list.
func New(client Client, o Options) *Log {
	if o.Slots == 0 {
		o.Slots = 256
	}
	if o.Checkpoints == (Checkpoints{}) {
		o.Checkpoints = usual
	}
	lean := o.Lean
	o.Lean = func(s *v1alpha1.CDEventSubject) *v1alpha1.CDEventSubject { return plausible(lean(s)) }
	return &Log{
		client: client, Options: o, entries: map[string]*entry{}, ring: make([]slot, o.Slots), ahead: map[int64]*v1alpha1.CDEventSubject{},
		doubts: map[string]bool{}, dropped: lru.New(maxDropped),
		behind: list.New(), wake: make(chan struct{}, 1),
	}
}

// errUnknown is the answer to all that needs the log before it is read.
var errUnknown = errors.New("the log of CDEventSubjects is not read yet")

// Update commits the next state of a CDEventSubject. It must be based on the newest one: it has its resourceVersion and revision.
// It fails as an update of the object itself would.
func (l *Log) Update(ctx context.Context, next *v1alpha1.CDEventSubject, opts metav1.UpdateOptions) (*v1alpha1.CDEventSubject, error) {
	if l.Direct(next) {
		return l.client.Update(ctx, next, opts) //nolint:wrapcheck // it is the caller's request
	}
	return l.commit(ctx, next)
}

// Create creates a CDEventSubject, or restores one that was deleted.
func (l *Log) Create(ctx context.Context, next *v1alpha1.CDEventSubject, opts metav1.CreateOptions) (*v1alpha1.CDEventSubject, error) {
	if l.Direct(next) {
		return l.client.Create(ctx, next, opts) //nolint:wrapcheck // it is the caller's request
	}
	if !l.Known() {
		return nil, apierrors.NewServiceUnavailable(errUnknown.Error())
	}
	// It may have been there before. The log must then not have a later state of it.
	if err := l.readToEnd(ctx); err != nil {
		return nil, err
	}
	if err := l.settle(ctx, next.Name); err != nil {
		return nil, err
	}
	l.mu.Lock()
	e, last := l.entries[next.Name], max(l.latestLocked(next.Name), l.droppedLocked(next.Name))
	room := int64(len(l.ring)) + 1
	begin := max(last+room, room*(l.writtenLocked()+1))
	l.mu.Unlock()
	if e != nil {
		return l.restore(ctx, e, next)
	}
	if next.Status.Revision > 0 && last > next.Status.Revision {
		return nil, conflict(next.Name) // it was to be restored, and somebody has ended it since
	}
	// If it was there before, every state of it had a lower revision, also if no slot has one any more: a state has at most the
	// resourceVersion of the write that committed it, times room, and the last state was written to a slot. What another process restores
	// meanwhile has a lower one, too, unless that process writes the whole ring.
	first := *next
	first.Status.Revision = begin
	written, err := l.client.Create(ctx, &first, opts)
	if err != nil {
		return nil, err //nolint:wrapcheck // it is the caller's request
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	written = l.Lean(written)
	l.storedLocked(written)
	return written, nil
}

// restore commits the next state of a CDEventSubject whose checkpoint was deleted, and writes it.
func (l *Log) restore(ctx context.Context, e *entry, next *v1alpha1.CDEventSubject) (*v1alpha1.CDEventSubject, error) {
	l.mu.Lock()
	newest, missing := e.newest, e.version == ""
	l.mu.Unlock()
	if !missing || newest.Status.Revision != next.Status.Revision {
		return nil, apierrors.NewAlreadyExists(v1alpha1.SubjectResource.GroupResource(), next.Name)
	}
	again := *next
	again.ObjectMeta = newest.ObjectMeta
	written, err := l.commit(ctx, &again)
	if err != nil {
		return nil, err
	}
	if err := l.checkpoint(ctx, next.Name); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries[next.Name] != e || e.newest.Status.Revision != written.Status.Revision { // perhaps it was created anew meanwhile
		return nil, conflict(next.Name)
	}
	return e.newest, nil
}

// Get returns the newest state that this process knows, and otherwise reads the object, for which options do not count.
func (l *Log) Get(ctx context.Context, name string, _ metav1.GetOptions) (*v1alpha1.CDEventSubject, error) {
	l.mu.Lock()
	if e := l.entries[name]; l.known && e != nil {
		defer l.mu.Unlock()
		return e.newest, nil
	}
	l.mu.Unlock()
	o, err := l.reread(ctx, name)
	if err != nil || o != nil && (l.Direct(o) || isSlot(o)) {
		return o, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[name]
	switch {
	case l.known && e != nil:
		return e.newest, nil // also if it was created since the answer
	case !l.known && o != nil:
		return nil, apierrors.NewServiceUnavailable(errUnknown.Error())
	}
	return nil, apierrors.NewNotFound(v1alpha1.SubjectResource.GroupResource(), name)
}

// Delete deletes a CDEventSubject if its newest state is the one of the precondition. It writes the checkpoint first if need be.
func (l *Log) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	if err := l.upToDate(ctx, name); err != nil {
		return err
	}
	l.mu.Lock()
	e := l.entries[name]
	if !l.known {
		l.mu.Unlock()
		return apierrors.NewServiceUnavailable(errUnknown.Error())
	}
	if e == nil {
		l.mu.Unlock()
		return l.client.Delete(ctx, name, opts) //nolint:wrapcheck // it is the caller's request
	}
	behind := e.position > 0
	l.mu.Unlock()
	if behind {
		if err := l.checkpoint(ctx, name); err != nil {
			return err
		}
	}
	l.appending.Lock()
	defer l.appending.Unlock()
	l.mu.Lock()
	if p := opts.Preconditions; l.entries[name] != e || e.position > 0 || p != nil && p.ResourceVersion != nil && *p.ResourceVersion != e.newest.ResourceVersion {
		l.mu.Unlock()
		return conflict(name)
	}
	uid, version := e.uid, e.version
	l.mu.Unlock()
	if version == "" {
		return apierrors.NewNotFound(v1alpha1.SubjectResource.GroupResource(), name)
	}
	err := l.client.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
	if apierrors.IsConflict(err) {
		_, reading := l.reread(ctx, name)
		return errors.Join(err, reading)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return err //nolint:wrapcheck // it is the caller's request
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.goneLocked(uid); l.entries[name] == e { // otherwise, another process has created it anew since
		l.dropLocked(name)
	}
	return err //nolint:wrapcheck // see above
}

// writtenLocked returns the highest resourceVersion of a slot.
func (l *Log) writtenLocked() (version int64) {
	for _, s := range l.ring {
		if n, err := strconv.ParseInt(s.version, 10, 64); err == nil && n <= maxVersion {
			version = max(version, n)
		}
	}
	return version
}

// maxRevision is more than a CDEventSubject ever reaches, and maxVersion more than etcd does: at 10,000 writes a second, after 14,000 years.
const maxRevision, maxVersion = 1 << 62, 1 << 52

// plausible returns a CDEventSubject as if an earlier build had written it, if somebody has edited its revision to one that cannot be.
func plausible(s *v1alpha1.CDEventSubject) *v1alpha1.CDEventSubject {
	if s == nil || s.Status.Revision >= 0 && s.Status.Revision <= maxRevision {
		return s
	}
	out := *s
	out.Status.Revision = 0
	return &out
}

func conflict(name string) error {
	return apierrors.NewConflict(v1alpha1.SubjectResource.GroupResource(), name, errOutdated)
}

var errOutdated = errors.New("a newer state is in the log")

// take makes a state the newest one. Its resourceVersion is what the ledger compares: it must be later than that of the state before, even
// if the API server wrote them the other way round, as an older state to a checkpoint after a newer one to the log.
func (e *entry) take(s *v1alpha1.CDEventSubject) {
	if e.newest != nil && !same(s, e.newest) && !newer(s.ResourceVersion, e.newest.ResourceVersion) {
		after, err := strconv.ParseUint(e.newest.ResourceVersion, 10, 64)
		if err == nil {
			moved := *s
			moved.ResourceVersion = strconv.FormatUint(after+1, 10)
			s = &moved
		}
	}
	e.newest = s
}

// same says whether two states of a CDEventSubject are of one write. A version that was moved may be that of the next write.
func same(a, b *v1alpha1.CDEventSubject) bool {
	return a.ResourceVersion == b.ResourceVersion && a.Status.Revision == b.Status.Revision
}

// later says whether the state a is newer than b. One without a revision was written by an earlier build, which knows no log.
func later(a, b *v1alpha1.CDEventSubject) bool {
	switch {
	case b == nil:
		return true
	case a.Status.Revision == 0 || b.Status.Revision == 0:
		return newer(a.ResourceVersion, b.ResourceVersion)
	}
	return a.Status.Revision > b.Status.Revision
}

// newer says whether the resourceVersion a is later than b. One that cannot be compared counts as newer, because it came from the API
// server.
func newer(a, b string) bool {
	if b == "" {
		return true
	}
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || c > 0
}
