// SPDX-License-Identifier: Apache-2.0

package wal_test

import (
	"context"
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

// chaos is an API server that loses answers, and carries out some writes late.
type chaos struct {
	*store.Store
	rng *rand.Rand
	// late are writes whose answers were lost before they were carried out.
	late []func()
}

func (c *chaos) Update(ctx context.Context, o *v1alpha1.CDEventSubject, opts metav1.UpdateOptions) (*v1alpha1.CDEventSubject, error) {
	write := func() (*v1alpha1.CDEventSubject, error) { return c.Store.Update(ctx, o.DeepCopy(), opts) }
	switch c.rng.IntN(12) {
	case 0:
		c.late = append(c.late, func() { _, _ = write() })
		return nil, apierrors.NewTimeoutError("late", 1)
	case 1:
		_, _ = write()
		return nil, apierrors.NewTimeoutError("lost", 1)
	}
	return write()
}

func (c *chaos) Get(ctx context.Context, name string, opts metav1.GetOptions) (*v1alpha1.CDEventSubject, error) {
	if c.rng.IntN(25) == 0 {
		return nil, apierrors.NewTimeoutError("not read", 1)
	}
	return c.Store.Get(ctx, name, opts)
}

// random is one history of several processes that change the same CDEventSubjects. What a CDEventSubject says is the list of all changes
// that led there.
type random struct {
	t     *testing.T
	rng   *rand.Rand
	api   *chaos
	slots int
	all   []*process
	// changes numbers them; committed are those that somebody was told of, in this order, and rejected those that must not appear.
	changes   int
	committed map[string][]string
	rejected  map[string]bool
	now       time.Time
}

func (r *random) start() *process {
	p := &process{t: r.t, s: r.api.Store}
	p.Log = ledger.NewLog(r.api, wal.Options{
		Slots: r.slots, Leads: func(types.NamespacedName) bool { return true }, Tell: func(*v1alpha1.CDEventSubject) {},
		Checkpoints: wal.Checkpoints{Rate: float64(r.rng.IntN(3)), Quiet: 1, QuietAfter: time.Minute, Age: time.Duration(r.rng.IntN(2)) * time.Second},
	})
	p.seen = len(r.api.Changes(0))
	for _, o := range r.api.All() {
		p.Observe(r.t.Context(), o)
	}
	p.Start(r.t.Context())
	return p
}

func (r *random) create(name string) error {
	_, err := r.all[0].Create(r.t.Context(), subject(name), metav1.CreateOptions{})
	return err //nolint:wrapcheck // the test looks at it
}

func names() []string { return []string{"a", "b", "c", "d", "e"} }

// change lets a process change some CDEventSubjects in one append.
func (r *random) change(p *process) {
	var batch []*v1alpha1.CDEventSubject
	var ids []string
	for _, name := range names() {
		if r.rng.IntN(3) > 0 {
			continue
		}
		for range 1 + r.rng.IntN(5)/4 { // sometimes the same one twice
			o, err := p.Get(r.t.Context(), "service-"+name, metav1.GetOptions{})
			if err != nil {
				continue
			}
			r.changes++
			id := fmt.Sprint(r.changes)
			batch, ids = append(batch, next(o, o.Status.LastEvent+id+",")), append(ids, id)
		}
	}
	for i, err := range p.CommitTogether(r.t.Context(), batch) {
		switch name := batch[i].Spec.Name; {
		case err == nil:
			r.committed[name] = append(r.committed[name], ids[i])
		case apierrors.IsConflict(err):
			r.rejected[ids[i]] = true
		case !apierrors.IsTimeout(err):
			r.t.Fatalf("change %s of %s: %v", ids[i], name, err)
		}
	}
}

func (r *random) step() {
	i := r.rng.IntN(len(r.all))
	p := r.all[i]
	switch r.rng.IntN(12) {
	case 0:
		r.all[i] = r.start()
	case 1:
		if n := len(r.api.late); n > 0 {
			k := r.rng.IntN(n)
			r.api.late[k]()
			r.api.late = slices.Delete(r.api.late, k, k+1)
		}
	case 2, 3:
		r.now = r.now.Add(time.Duration(r.rng.IntN(3)) * time.Second)
		_ = p.Checkpoint(r.t.Context(), r.now)
	case 4, 5, 6:
		changes := r.api.Changes(p.seen)
		for _, c := range changes[:min(len(changes), 1+r.rng.IntN(4))] {
			p.seen++
			p.Observe(r.t.Context(), c.Object)
		}
	case 7:
		if r.rng.IntN(4) > 0 {
			return
		}
		p.seen = len(r.api.Changes(0)) // the informer lists again
		all := r.api.All()
		r.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, o := range all {
			p.Observe(r.t.Context(), o)
		}
	default:
		r.change(p)
	}
}

// judge compares what a CDEventSubject says with what was answered.
func (r *random) judge(who string, says func(name string) string) {
	for _, name := range names() {
		got := strings.Split(strings.TrimSuffix(says(name), ","), ",")
		at := 0
		for _, id := range r.committed[name] {
			i := slices.Index(got[at:], id)
			if i < 0 {
				r.t.Fatalf("%s: %s went through %v, which lacks %s of the committed %v", who, name, got, id, r.committed[name])
			}
			at += i + 1
		}
		for i, id := range got {
			if r.rejected[id] || slices.Contains(got[:i], id) {
				r.t.Fatalf("%s: %s went through %v, with %s, which was rejected or comes twice", who, name, got, id)
			}
		}
	}
}

// TestRandomChanges checks that the log is linearizable for each CDEventSubject: what was answered is in each later state, once, in order.
func TestRandomChanges(t *testing.T) {
	t.Parallel()
	histories := uint64(500)
	if testing.Short() {
		histories = 100
	}
	total := 0
	for seed := range histories {
		r := &random{
			t: t, rng: rand.New(rand.NewPCG(seed, 3)), slots: 2 + int(seed%4), committed: map[string][]string{}, rejected: map[string]bool{},
			now: time.Unix(1_700_000_000, 0),
		}
		r.api = &chaos{Store: store.New(), rng: r.rng}
		r.all = []*process{r.start()}
		for _, name := range names() {
			for apierrors.IsTimeout(r.create(name)) {
			}
		}
		for range seed % 3 {
			r.all = append(r.all, r.start())
		}
		for range 120 {
			r.step()
			if r.rng.IntN(10) == 0 {
				fresh := r.start()
				r.judge(fmt.Sprintf("seed %d, a fresh process", seed), fresh.says)
				seen := view(r.api.Store)
				r.judge(fmt.Sprintf("seed %d, users", seed), func(name string) string { return seen[name] })
			}
		}
		for _, late := range r.api.late {
			late()
		}
		r.judge(fmt.Sprintf("seed %d, at the end", seed), r.start().says)
		for _, all := range r.committed {
			total += len(all)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d histories, %d committed changes", histories, total)
}
