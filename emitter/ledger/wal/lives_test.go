// SPDX-License-Identifier: Apache-2.0

package wal_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger/wal"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// witness is a process with an informer of its own, which lags, and lists again in any order.
type witness struct {
	*wal.Log
	l    *lives
	seen int
	// cache is what the informer has delivered.
	cache map[string]*v1alpha1.CDEventSubject
	// told has, by name, the state of the last call of Tell.
	told map[string]string
}

// lives is a history of CDEventSubjects that are created, changed, ended, deleted, and created again under the same name. What one says is
// the number of its life and all changes that led there: "3:5,7,".
type lives struct {
	t     *testing.T
	rng   *rand.Rand
	api   *store.Store
	slots int
	// creates is the name that a process creates or deletes now, empty if there is none. No other process creates or deletes meanwhile, so
	// that the lives have an order.
	creates string
	// flaky says that requests fail, busy that something happens during a request, and inside that it does now.
	flaky, busy, inside bool
	all                 []*witness
	count               int
	now                 time.Time
	// is is what is known of each name.
	is map[string]*fate
}

// fate is what was answered about a name.
type fate struct {
	life int
	// says is the newest state that was answered.
	says string
	// there, ended and deleted are what was answered; doubtful that an answer was lost since.
	there, ended, deleted, doubtful bool
}

// client is a process's client of an API server that sometimes carries a request out and does not answer, or does not carry it out. Before
// and after a request, the informer may deliver, and other processes may act.
type client struct {
	*store.Store
	l *lives
	w *witness
}

func answer[T any](c *client, do func() (T, error)) (T, error) {
	c.l.meanwhile(c.w)
	defer c.l.meanwhile(c.w)
	var none T
	if c.l.flaky && c.l.rng.IntN(25) == 0 {
		if c.l.rng.IntN(2) == 0 {
			_, _ = do()
		}
		return none, apierrors.NewTimeoutError("lost", 1)
	}
	return do()
}

func (c *client) Update(ctx context.Context, o *v1alpha1.CDEventSubject, opts metav1.UpdateOptions) (*v1alpha1.CDEventSubject, error) {
	return answer(c, func() (*v1alpha1.CDEventSubject, error) { return c.Store.Update(ctx, o, opts) })
}

func (c *client) Create(ctx context.Context, o *v1alpha1.CDEventSubject, opts metav1.CreateOptions) (*v1alpha1.CDEventSubject, error) {
	return answer(c, func() (*v1alpha1.CDEventSubject, error) { return c.Store.Create(ctx, o, opts) })
}

func (c *client) Get(ctx context.Context, name string, opts metav1.GetOptions) (*v1alpha1.CDEventSubject, error) {
	return answer(c, func() (*v1alpha1.CDEventSubject, error) { return c.Store.Get(ctx, name, opts) })
}

func (c *client) List(ctx context.Context, opts metav1.ListOptions) (*v1alpha1.CDEventSubjectList, error) {
	return answer(c, func() (*v1alpha1.CDEventSubjectList, error) { return c.Store.List(ctx, opts) })
}

func (c *client) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	_, err := answer(c, func() (any, error) { return nil, c.Store.Delete(ctx, name, opts) })
	return err
}

// meanwhile lets something happen while a process waits for an answer.
func (l *lives) meanwhile(w *witness) {
	if !l.busy || l.inside || w.Log == nil || l.rng.IntN(8) > 0 {
		return
	}
	l.inside = true
	defer func() { l.inside = false }()
	if other := l.all[l.rng.IntN(len(l.all))]; other != w {
		l.act(other)
		return
	}
	w.follow(1 + l.rng.IntN(5))
}

func (l *lives) start() *witness {
	w := &witness{l: l, cache: map[string]*v1alpha1.CDEventSubject{}, told: map[string]string{}}
	w.Log = ledger.NewLog(&client{Store: l.api, l: l, w: w}, wal.Options{
		Slots: l.slots, Leads: func(types.NamespacedName) bool { return true }, Tell: w.tell,
		Checkpoints: wal.Checkpoints{Rate: float64(l.rng.IntN(3)), Quiet: 1, QuietAfter: time.Minute},
	})
	w.seen = len(l.api.Changes(0))
	for _, o := range l.api.All() {
		w.observe(o)
	}
	w.Start(l.t.Context())
	return w
}

// tell checks that no call of Tell has an earlier state than the call before.
func (w *witness) tell(o *v1alpha1.CDEventSubject) {
	before, says := w.told[o.Name], o.Status.LastEvent
	a, b := lifeOf(before), lifeOf(says)
	if b < a || a == b && !strings.HasPrefix(says, before) {
		w.l.t.Errorf("Tell was called with %q of %s, after %q", says, o.Spec.Name, before)
	}
	w.told[o.Name] = says
}

// lifeOf is the number at the start of what a CDEventSubject says.
func lifeOf(says string) int {
	n := 0
	_, _ = fmt.Sscanf(says, "%d:", &n)
	return n
}

func (w *witness) observe(o *v1alpha1.CDEventSubject) {
	w.cache[o.Name] = o
	w.Observe(w.l.t.Context(), o)
}

// follow lets the informer deliver the next n changes.
func (w *witness) follow(n int) {
	changes := w.l.api.Changes(w.seen)
	for _, c := range changes[:min(n, len(changes))] {
		if w.seen++; c.Deleted {
			delete(w.cache, c.Object.Name)
			w.Forget(c.Object, true)
			continue
		}
		w.observe(c.Object)
	}
}

// relist lets the informer list again, and deliver what it finds in any order.
func (w *witness) relist() {
	w.seen = len(w.l.api.Changes(0))
	all := w.l.api.All()
	var steps []func()
	for name, last := range w.cache {
		now := w.l.api.Peek(name)
		if now == nil || now.UID != last.UID {
			steps = append(steps, func() { delete(w.cache, name); w.Forget(last, false) })
			if now != nil { // the informer delivers both in this order
				steps[len(steps)-1] = func() { w.Forget(last, false); w.observe(now) }
				all = slices.DeleteFunc(all, func(o *v1alpha1.CDEventSubject) bool { return o.Name == name })
			}
		}
	}
	for _, o := range all {
		steps = append(steps, func() { w.observe(o) })
	}
	w.l.rng.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	for _, do := range steps {
		do()
	}
}

func (l *lives) step() {
	if i := l.rng.IntN(len(l.all)); l.rng.IntN(50) == 0 {
		l.all[i] = l.start()
	} else {
		l.act(l.all[i])
	}
}

func (l *lives) makeSlots() {
	if err := l.all[0].MakeSlots(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
}

// act lets a process do something.
func (l *lives) act(w *witness) {
	name := names()[l.rng.IntN(len(names()))]
	if name == l.creates {
		return
	}
	switch l.rng.IntN(15) {
	case 0, 1:
		l.now = l.now.Add(time.Duration(l.rng.IntN(3)) * time.Second)
		_ = w.Checkpoint(l.t.Context(), l.now)
	case 2, 3, 4:
		w.follow(1 + l.rng.IntN(5))
	case 5:
		if l.rng.IntN(3) == 0 {
			w.relist()
		}
	case 6:
		if !l.inside {
			l.vandalise(w, name)
		}
	case 7, 8:
		l.create(w, name)
	case 9:
		l.remove(w, name)
	default:
		l.change(w, name, l.rng.IntN(4) == 0)
	}
}

// calmly does something without failures, and with nothing else at the same time.
func (l *lives) calmly(do func()) {
	flaky, busy := l.flaky, l.busy
	l.flaky, l.busy = false, false
	do()
	l.flaky, l.busy = flaky, busy
}

func (l *lives) create(w *witness, name string) {
	f := l.is[name]
	if _, err := w.Get(l.t.Context(), "service-"+name, metav1.GetOptions{}); !apierrors.IsNotFound(err) || l.creates != "" {
		return
	}
	l.creates = name
	defer func() { l.creates = "" }()
	f.life++
	o := subject(name)
	o.Status.LastEvent = fmt.Sprintf("%d:", f.life)
	switch _, err := w.Create(l.t.Context(), o, metav1.CreateOptions{}); {
	case err == nil:
		*f = fate{life: f.life, says: o.Status.LastEvent, there: true}
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
	default:
		f.doubtful = true
	}
}

// change commits a change, or the end.
func (l *lives) change(w *witness, name string, ends bool) {
	o, err := w.Get(l.t.Context(), "service-"+name, metav1.GetOptions{})
	if err != nil || o.Status.Removed {
		return
	}
	l.count++
	n := next(o, fmt.Sprintf("%s%d,", o.Status.LastEvent, l.count))
	n.Status.Removed = ends
	switch _, err := w.Update(l.t.Context(), n, metav1.UpdateOptions{}); {
	case err == nil:
		l.committed(name, n)
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
	default:
		l.is[name].doubtful = true
	}
}

// committed takes note of a state that was committed. What was committed later may be known already.
func (l *lives) committed(name string, o *v1alpha1.CDEventSubject) {
	f, says := l.is[name], o.Status.LastEvent
	switch {
	case strings.HasPrefix(f.says, says):
	case f.doubtful, f.there && !f.ended && strings.HasPrefix(says, f.says):
		*f = fate{life: f.life, says: says, there: true, ended: o.Status.Removed}
	default:
		l.t.Errorf("%s: %q was committed after %+v", name, says, *f)
	}
}

// remove deletes what has ended.
func (l *lives) remove(w *witness, name string) {
	o, err := w.Get(l.t.Context(), "service-"+name, metav1.GetOptions{})
	if err != nil || !o.Status.Removed || l.creates != "" {
		return
	}
	l.creates = name
	defer func() { l.creates = "" }()
	f := l.is[name]
	switch err := w.Delete(l.t.Context(), o.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &o.ResourceVersion}}); {
	case err == nil:
		l.committed(name, o)
		*f = fate{life: f.life, says: o.Status.LastEvent, deleted: true}
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
	default:
		f.doubtful = true
	}
}

// vandalise deletes a checkpoint by hand. One process, which has read the whole log, sees it, and restores it.
func (l *lives) vandalise(w *witness, name string) {
	if f := l.is[name]; f.there && !f.ended && !f.doubtful && l.api.Has("service-"+name) {
		l.calmly(func() { l.deleteByHand(w, name) })
	}
}

func (l *lives) deleteByHand(w *witness, name string) {
	for range 3 {
		w.follow(1 << 20)
		l.now = l.now.Add(time.Minute)
		if err := w.Checkpoint(l.t.Context(), l.now); err != nil {
			l.t.Error(err)
		}
	}
	if !l.api.Has("service-" + name) {
		return
	}
	if o, err := w.Get(l.t.Context(), "service-"+name, metav1.GetOptions{}); err != nil || o.Status.Removed {
		return
	}
	l.api.Remove("service-" + name)
	for range 20 {
		w.follow(1 << 20)
		l.now = l.now.Add(time.Minute)
		if err := w.Checkpoint(l.t.Context(), l.now); err != nil {
			l.t.Error(err)
		}
		if l.api.Has("service-" + name) {
			return
		}
	}
	l.t.Errorf("%s is not restored", name)
}

// rest lets everything come to rest, and compares what all know with what was answered.
func (l *lives) rest() {
	resting := func() bool {
		return !slices.ContainsFunc(l.all, func(w *witness) bool { return w.Behind() > 0 || len(l.api.Changes(w.seen)) > 0 })
	}
	for i := 0; i < 3 || !resting(); i++ {
		if i > 200 {
			l.t.Error("does not come to rest")
			return
		}
		for _, w := range l.all {
			l.now = l.now.Add(time.Minute)
			w.follow(1 << 20)
			if err := w.Checkpoint(l.t.Context(), l.now); err != nil {
				l.t.Error(err)
			}
		}
	}
	for i, w := range append(slices.Clip(l.all), l.start()) {
		for _, name := range names() {
			l.judge(fmt.Sprintf("process %d of %d", i, len(l.all)), name, w)
		}
	}
}

func (l *lives) judge(who, name string, w *witness) {
	f := l.is[name]
	o, err := w.Get(l.t.Context(), "service-"+name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		l.t.Errorf("%s: %s: %v", who, name, err)
	}
	if err == nil && o.Status.Removed && !l.api.Has(o.Name) {
		return // the deletion was not seen; the ledger deletes it again
	}
	switch {
	case f.doubtful:
	case err != nil && f.there && !f.ended:
		l.t.Errorf("%s: %s is lost: %+v", who, name, *f)
	case err == nil && !f.there:
		l.t.Errorf("%s: %s says %q, and was %+v", who, name, o.Status.LastEvent, *f)
	case err == nil && o.Status.LastEvent != f.says:
		l.t.Errorf("%s: %s says %q, and was %+v", who, name, o.Status.LastEvent, *f)
	}
	if now := l.api.Peek("service-" + name); (now == nil) != (err != nil) {
		l.t.Errorf("%s: %s: %v, and the API server has %v", who, name, errors.Unwrap(err), now != nil)
	}
}

// TestRandomLives checks that what ended stays so, that what did not is not lost, and that no process learns of an earlier state after a
// later one, whatever the order in which its informer delivers.
func TestRandomLives(t *testing.T) {
	t.Parallel()
	histories := uint64(3000)
	if testing.Short() {
		histories = 300
	}
	for seed := range histories {
		l := &lives{
			t: t, rng: rand.New(rand.NewPCG(seed, 5)), api: store.New(), slots: 2 + int(seed%4), now: time.Unix(1_700_000_000, 0),
			is: map[string]*fate{}, flaky: seed%2 == 1, busy: seed%3 > 0,
		}
		for _, name := range names() {
			l.is[name] = &fate{}
		}
		for range 1 + seed/6%3 {
			l.all = append(l.all, l.start())
		}
		if seed%5 > 0 { // otherwise, appends make them
			l.calmly(l.makeSlots)
		}
		for range 150 {
			l.step()
			if l.rng.IntN(25) == 0 {
				l.calmly(l.rest)
			}
		}
		l.calmly(l.rest)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
