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
	// told is the last state that it was told of, by name.
	told map[string]string
}

// lives is a history of CDEventSubjects that are created, changed, ended, deleted, and created again under the same name. What one says is
// the number of its life and all changes that led there: "3:5,7,".
type lives struct {
	t     *testing.T
	rng   *rand.Rand
	api   *flaky
	slots int
	all   []*witness
	count int
	now   time.Time
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

// flaky is an API server that sometimes carries a request out and does not answer, or does not carry it out.
type flaky struct {
	*store.Store
	rng *rand.Rand
	off bool
}

func (f *flaky) fails() bool { return !f.off && f.rng.IntN(25) == 0 }

func answer[T any](f *flaky, do func() (T, error)) (T, error) {
	var none T
	if f.fails() {
		if f.rng.IntN(2) == 0 {
			_, _ = do()
		}
		return none, apierrors.NewTimeoutError("lost", 1)
	}
	return do()
}

func (f *flaky) Update(ctx context.Context, o *v1alpha1.CDEventSubject, opts metav1.UpdateOptions) (*v1alpha1.CDEventSubject, error) {
	return answer(f, func() (*v1alpha1.CDEventSubject, error) { return f.Store.Update(ctx, o, opts) })
}

func (f *flaky) Create(ctx context.Context, o *v1alpha1.CDEventSubject, opts metav1.CreateOptions) (*v1alpha1.CDEventSubject, error) {
	return answer(f, func() (*v1alpha1.CDEventSubject, error) { return f.Store.Create(ctx, o, opts) })
}

func (f *flaky) Get(ctx context.Context, name string, opts metav1.GetOptions) (*v1alpha1.CDEventSubject, error) {
	return answer(f, func() (*v1alpha1.CDEventSubject, error) { return f.Store.Get(ctx, name, opts) })
}

func (f *flaky) List(ctx context.Context, opts metav1.ListOptions) (*v1alpha1.CDEventSubjectList, error) {
	return answer(f, func() (*v1alpha1.CDEventSubjectList, error) { return f.Store.List(ctx, opts) })
}

func (f *flaky) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	_, err := answer(f, func() (any, error) { return nil, f.Store.Delete(ctx, name, opts) })
	return err
}

func (l *lives) start() *witness {
	w := &witness{l: l, cache: map[string]*v1alpha1.CDEventSubject{}, told: map[string]string{}}
	w.Log = ledger.NewLog(l.api, wal.Options{
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

// tell checks that a process is never told of an earlier state than before.
func (w *witness) tell(o *v1alpha1.CDEventSubject) {
	before, says := w.told[o.Name], o.Status.LastEvent
	a, b := lifeOf(before), lifeOf(says)
	if b < a || a == b && !strings.HasPrefix(says, before) {
		w.l.t.Errorf("told of %s as %q after %q", o.Spec.Name, says, before)
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
	i := l.rng.IntN(len(l.all))
	w := l.all[i]
	name := names()[l.rng.IntN(len(names()))]
	switch l.rng.IntN(16) {
	case 0:
		if l.rng.IntN(3) == 0 {
			l.all[i] = l.start()
		}
	case 1, 2:
		l.now = l.now.Add(time.Duration(l.rng.IntN(3)) * time.Second)
		_ = w.Checkpoint(l.t.Context(), l.now)
	case 3, 4, 5:
		w.follow(1 + l.rng.IntN(5))
	case 6:
		if l.rng.IntN(3) == 0 {
			w.relist()
		}
	case 7:
		w.l.vandalise(w, name)
	case 8, 9:
		l.create(w, name)
	case 10:
		l.remove(w, name)
	default:
		l.change(w, name, l.rng.IntN(4) == 0)
	}
}

func (l *lives) create(w *witness, name string) {
	f := l.is[name]
	if _, err := w.Get(l.t.Context(), "service-"+name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return
	}
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
	f := l.is[name]
	o, err := w.Get(l.t.Context(), "service-"+name, metav1.GetOptions{})
	if err != nil || o.Status.Removed {
		return
	}
	l.count++
	n := next(o, fmt.Sprintf("%s%d,", o.Status.LastEvent, l.count))
	n.Status.Removed = ends
	switch _, err := w.Update(l.t.Context(), n, metav1.UpdateOptions{}); {
	case err == nil:
		if !f.doubtful && (!f.there || f.ended || !strings.HasPrefix(n.Status.LastEvent, f.says)) {
			l.t.Errorf("%s: %q was committed after %+v", name, n.Status.LastEvent, *f)
		}
		*f = fate{life: f.life, says: n.Status.LastEvent, there: true, ended: ends}
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
	default:
		f.doubtful = true
	}
}

// remove deletes what has ended.
func (l *lives) remove(w *witness, name string) {
	f := l.is[name]
	o, err := w.Get(l.t.Context(), "service-"+name, metav1.GetOptions{})
	if err != nil || !o.Status.Removed {
		return
	}
	switch err := w.Delete(l.t.Context(), o.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &o.ResourceVersion}}); {
	case err == nil:
		if !f.doubtful && !f.ended {
			l.t.Errorf("%s was deleted as %q, and is %+v", name, o.Status.LastEvent, *f)
		}
		*f = fate{life: f.life, deleted: true}
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
	default:
		f.doubtful = true
	}
}

// vandalise deletes a checkpoint by hand. One process, which has read the whole log, sees it, and restores it.
func (l *lives) vandalise(w *witness, name string) {
	f := l.is[name]
	if !f.there || f.ended || f.doubtful || !l.api.Has("service-"+name) {
		return
	}
	l.api.off = true
	defer func() { l.api.off = false }()
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
	l.api.off = true
	defer func() { l.api.off = false }()
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
		l := &lives{t: t, rng: rand.New(rand.NewPCG(seed, 5)), slots: 2 + int(seed%4), now: time.Unix(1_700_000_000, 0), is: map[string]*fate{}}
		l.api = &flaky{Store: store.New(), rng: l.rng, off: seed%2 == 0}
		calm := l.api.off
		for _, name := range names() {
			l.is[name] = &fate{}
		}
		for range 1 + seed%3 {
			l.all = append(l.all, l.start())
		}
		for range 150 {
			l.step()
			if l.api.off = calm; l.rng.IntN(25) == 0 {
				l.rest()
			}
			l.api.off = calm
		}
		l.rest()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
