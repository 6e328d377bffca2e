// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// late is an API server some of whose answers are lost, wrong, or given before the write is done.
type late struct {
	*world
	waiting []func()
}

// meddle chooses what happens to a write.
func meddle(l *late, verb, name string, o *v1alpha1.CDEventSubject,
	do func(*v1alpha1.CDEventSubject) (*v1alpha1.CDEventSubject, error),
) (*v1alpha1.CDEventSubject, error) {
	switch l.rng.IntN(30) {
	case 0: // it is done later
		if verb == "create" {
			return nil, apierrors.NewTimeoutError("before", 1) // nobody deletes an entry in the same moment
		}
		c := o.DeepCopy()
		l.waiting = append(l.waiting, func() { _, _ = do(c) })
		return nil, apierrors.NewTimeoutError("late", 1)
	case 1: // the transport repeats it, and the second answer comes
		if _, err := do(o.DeepCopy()); err != nil {
			return nil, err
		}
		return do(o)
	case 2:
		return nil, apierrors.NewConflict(v1alpha1.SubjectResource.GroupResource(), name, errors.New("spurious"))
	case 3:
		return nil, apierrors.NewTimeoutError("before", 1)
	case 4:
		if _, err := do(o); err != nil {
			return nil, err
		}
		return nil, apierrors.NewTimeoutError("after", 1)
	}
	return do(o)
}

func (l *late) Create(ctx context.Context, o *v1alpha1.CDEventSubject, opts metav1.CreateOptions) (*v1alpha1.CDEventSubject, error) {
	return meddle(l, "create", o.Name, o, func(o *v1alpha1.CDEventSubject) (*v1alpha1.CDEventSubject, error) {
		return l.store.Create(ctx, o, opts)
	})
}

func (l *late) Update(ctx context.Context, o *v1alpha1.CDEventSubject, opts metav1.UpdateOptions) (*v1alpha1.CDEventSubject, error) {
	return meddle(l, "update", o.Name, o, func(o *v1alpha1.CDEventSubject) (*v1alpha1.CDEventSubject, error) {
		return l.store.Update(ctx, o, opts)
	})
}

func (l *late) Get(ctx context.Context, name string, opts metav1.GetOptions) (*v1alpha1.CDEventSubject, error) {
	if l.rng.IntN(30) == 0 {
		return nil, apierrors.NewTimeoutError("get", 1)
	}
	return l.store.Get(ctx, name, opts)
}

func (l *late) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	switch l.rng.IntN(20) {
	case 0:
		_ = l.store.Delete(ctx, name, opts)
		return apierrors.NewTimeoutError("delete", 1)
	case 1:
		_ = l.store.Delete(ctx, name, opts)
		return apierrors.NewNotFound(v1alpha1.SubjectResource.GroupResource(), name)
	}
	return l.store.Delete(ctx, name, opts)
}

func (l *late) come() {
	for len(l.waiting) > 0 {
		f := l.waiting[0]
		l.waiting = l.waiting[1:]
		acting, dieIn := l.acting, l.dieIn
		l.acting, l.dieIn = nil, 0
		f()
		l.acting, l.dieIn = acting, dieIn
	}
}

// attacked is a history with what chaos does not have.
func attacked(seed uint64, with chaos, vandals bool) *world {
	w := newWorld(seed, with)
	l := &late{world: w}
	w.meddler = l
	w.cluster.stateful = func(name string) bool { return name == "s0" || name == "s1" }
	w.processes = append(w.processes, w.start())
	for done := 0; done < size; {
		if w.rng.IntN(3) == 0 {
			w.change()
			done++
		}
		w.with.vandals = false // they come below
		w.disturb()
		w.with.vandals = vandals
		if n := len(w.processes); n > 0 && w.rng.IntN(25) == 0 {
			switch p := w.processes[w.rng.IntN(n)]; w.rng.IntN(3) {
			case 0:
				p.demote()
			default:
				p.lead()
			}
		}
		if w.rng.IntN(8) == 0 {
			l.come()
		}
		if vandals && w.rng.IntN(40) == 0 {
			w.vandal()
		}
		for range w.rng.IntN(6) {
			if n := len(w.processes); n > 0 {
				w.stepUnlessSuspended(w.processes[w.rng.IntN(n)])
			}
		}
	}
	l.come()
	for _, p := range w.processes { // whoever is ended has restored what it saw
		p.follow(all)
	}
	w.meddler = nil
	w.settle()
	return w
}

// vandal deletes an entry that every process has seen.
func (w *world) vandal() {
	names := w.store.Names()
	if len(names) == 0 {
		return
	}
	o := w.store.Peek(names[w.rng.IntN(len(names))])
	if o.Status.Removed {
		return
	}
	if len(w.processes) < 2 {
		return
	}
	for _, p := range w.processes {
		p.follow(all)
	}
	w.silent += 2
	w.store.Remove(o.Name)
	if w.rng.IntN(2) == 0 && len(w.processes) > 0 {
		w.processes[w.rng.IntN(len(w.processes))].follow(all)
	}
}

// worst runs histories, and leaves out what the API server is to blame for: more writes, and those that come late.
func worst(t *testing.T, vandals bool, with func(seed uint64) chaos) {
	t.Helper()
	for seed := uint64(1); seed <= 30; seed++ {
		w := attacked(seed, with(seed), vandals)
		w.judge()
		w.end()
		for _, p := range w.problems {
			if !slices.ContainsFunc([]string{"writes for", "acknowledging:", "collecting:", "by a process that does not lead"},
				func(s string) bool { return strings.Contains(p, s) }) {
				t.Errorf("seed %d: %s", seed, p)
			}
		}
	}
}

// Two replicas lead, and users delete entries.
func TestWorstAPIServerAndVandals(t *testing.T) {
	for _, vandals := range []bool{false, true} {
		worst(t, vandals, func(seed uint64) chaos {
			return chaos{leaders: true, unelected: true, outages: seed%2 == 0, suspends: seed%3 == 0, sources: 1 + int(seed%2)}
		})
	}
}

func TestWorstAPIServerAndCrashes(t *testing.T) {
	worst(t, false, func(seed uint64) chaos {
		with := chaosOf(seed)
		with.vandals, with.leaders = false, with.leaders || seed%2 == 0
		return with
	})
}
