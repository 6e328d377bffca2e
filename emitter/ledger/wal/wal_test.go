// SPDX-License-Identifier: Apache-2.0

package wal_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger/wal"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

func TestCommitIsReadByOthersAndByTheNext(t *testing.T) {
	t.Parallel()
	s := store.New()
	a, b := start(t, s, 4), start(t, s, 4)
	cart := a.create("cart")
	second := cart.Status.Revision + 2
	cart = a.update(cart, "first")
	cart = a.update(cart, "second")
	if cart.Status.Revision != second {
		t.Errorf("revision %d after a creation and two updates, want %d", cart.Status.Revision, second)
	}
	b.follow()
	b.want("cart", "second")
	start(t, s, 4).want("cart", "second")
	if got := s.Peek("service-cart").Status.LastEvent; got != "" {
		t.Errorf("the checkpoint says %q already", got)
	}
	if got := view(s)["cart"]; got != "second" {
		t.Errorf("users see %q, want second", got)
	}
	if err := a.Checkpoint(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := a.Checkpoint(t.Context(), time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if got := s.Peek("service-cart"); got.Status.LastEvent != "second" || got.Status.Revision != second || a.Behind() != 0 {
		t.Errorf("the checkpoint says %q at revision %d, and %d are behind", got.Status.LastEvent, got.Status.Revision, a.Behind())
	}
	a.update(cart, "third") // its version is that of the commit, not of the checkpoint
}

// What many want to write while a write is on its way goes into the next one.
func TestChangesOfManyAreOneWrite(t *testing.T) {
	t.Parallel()
	const many = 50
	s := store.New()
	p := start(t, s, 8)
	p.slots()
	var all []*v1alpha1.CDEventSubject
	for i := range many + 1 {
		all = append(all, p.create(fmt.Sprint(i)))
	}
	first, proceed := make(chan struct{}), make(chan struct{})
	s.Before = sync.OnceValue(func() func(string, string) error {
		var once sync.Once
		return func(verb, _ string) error {
			if verb == "update" {
				once.Do(func() { close(first); <-proceed })
			}
			return nil
		}
	})()
	before := s.Writes()
	var group sync.WaitGroup
	update := func(o *v1alpha1.CDEventSubject) {
		group.Go(func() {
			if _, err := p.Update(t.Context(), next(o, "now"), metav1.UpdateOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	update(all[0])
	<-first
	for _, o := range all[1:] {
		update(o)
	}
	for p.Waiting() < many {
		time.Sleep(time.Millisecond)
	}
	close(proceed)
	group.Wait()
	if got := s.Writes() - before; got != 2 {
		t.Errorf("%d changes took %d writes, want 2", many+1, got)
	}
	for i := range all {
		p.want(fmt.Sprint(i), "now")
	}
}

// A state that nothing else has is never overwritten, however often the ring comes round.
func TestRingComesRound(t *testing.T) {
	t.Parallel()
	s := store.New()
	p := start(t, s, 3)
	p.update(p.create("idle"), "once")
	busy := p.create("busy")
	for i := range 20 {
		busy = p.update(busy, fmt.Sprint(i))
		fresh := start(t, s, 3)
		fresh.want("idle", "once")
		fresh.want("busy", fmt.Sprint(i))
	}
}

func TestOneOfTwoProcessesWins(t *testing.T) {
	t.Parallel()
	s := store.New()
	a, b := start(t, s, 3), start(t, s, 3)
	cart, shop := a.create("cart"), a.create("shop")
	b.follow()
	a.update(cart, "mine")
	if _, err := b.Update(t.Context(), next(cart, "theirs"), metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Fatalf("%v, want a conflict", err)
	}
	b.want("cart", "mine") // the conflict has read it
	for i := range 9 {     // changes of others are no conflict
		shop = []*process{a, b}[i%2].update(shop, fmt.Sprint(i))
		a.follow()
		b.follow()
	}
	current, err := b.Get(t.Context(), "service-cart", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b.update(current, "theirs, then")
	a.follow()
	a.want("cart", "theirs, then")
	a.want("shop", "8")
}

// The API server may carry out a write whose answer is lost, or carry it out later, or never.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	lost := apierrors.NewTimeoutError("no answer", 1)
	t.Run("written", func(t *testing.T) {
		t.Parallel()
		s := store.New()
		p := start(t, s, 3)
		cart := p.create("cart")
		s.After = once("update", lost)
		p.update(cart, "there")
		p.want("cart", "there")
	})
	t.Run("not written", func(t *testing.T) {
		t.Parallel()
		s := store.New()
		p := start(t, s, 3)
		cart := p.create("cart")
		s.Before = once("update", lost)
		if _, err := p.Update(t.Context(), next(cart, "gone"), metav1.UpdateOptions{}); !apierrors.IsTimeout(err) {
			t.Fatalf("%v, want a timeout", err)
		}
		p.want("cart", "")
		p.update(cart, "again")
	})
	t.Run("written, and not seen for a while", func(t *testing.T) {
		t.Parallel()
		s := store.New()
		p := start(t, s, 3)
		cart := p.create("cart")
		s.After = func(verb, _ string) error {
			if verb == "update" || verb == "get" {
				return lost
			}
			return nil
		}
		if _, err := p.Update(t.Context(), next(cart, "there"), metav1.UpdateOptions{}); !apierrors.IsTimeout(err) {
			t.Fatalf("%v, want a timeout", err)
		}
		s.After = nil
		if _, err := p.Update(t.Context(), next(cart, "again"), metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			t.Fatalf("%v, want a conflict with the first attempt", err)
		}
		p.want("cart", "there")
		if p.TellAll(); len(p.told) == 0 || p.told[len(p.told)-1].Status.LastEvent != "there" {
			t.Error("the ledger was not told of what it took for lost")
		}
	})
}

// once fails the next request with a verb.
func once(verb string, err error) func(string, string) error {
	failed := false
	return func(v, _ string) error {
		if v == verb && !failed {
			failed = true
			return err
		}
		return nil
	}
}

// An informer that lists again has missed positions.
func TestPositionsAreMissing(t *testing.T) {
	t.Parallel()
	s := store.New()
	a, b := start(t, s, 3), start(t, s, 3)
	idle, busy := a.create("idle"), a.create("busy")
	b.follow()
	a.update(idle, "once")
	a.updates(busy, 10)
	for _, o := range s.All() { // in the order of names
		b.Observe(t.Context(), o)
	}
	if _, err := b.Update(t.Context(), next(idle, "stale"), metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Fatalf("%v, want a conflict", err)
	}
	b.want("idle", "once")
	b.want("busy", "9")
}

func TestSlotDeletedByHand(t *testing.T) {
	t.Parallel()
	s := store.New()
	p := start(t, s, 3)
	cart := p.update(p.create("cart"), "first")
	for _, name := range s.Names() {
		if strings.HasPrefix(name, "log-") {
			s.Remove(name)
		}
	}
	p.follow()
	if err := p.Checkpoint(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := p.Checkpoint(t.Context(), time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	start(t, s, 3).want("cart", "first")
	p.updates(cart, 7)
	start(t, s, 3).want("cart", "6")
}

func TestCDEventSubjectDeletedByHand(t *testing.T) {
	t.Parallel()
	s := store.New()
	p := start(t, s, 3)
	cart := p.update(p.create("cart"), "first")
	s.Remove("service-cart")
	p.follow()
	got, err := p.Create(t.Context(), restoration(cart, "second"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if stored := s.Peek("service-cart"); stored.Status.LastEvent != "second" || stored.UID != got.UID || stored.Status.Revision != cart.Status.Revision+1 {
		t.Errorf("%q was restored at revision %d", stored.Status.LastEvent, stored.Status.Revision)
	}
	p.follow()
	p.update(got, "third")
}

// One change that the API server refuses fails alone.
func TestRefusedChange(t *testing.T) {
	t.Parallel()
	s := store.New()
	p := start(t, s, 8)
	var all []*v1alpha1.CDEventSubject
	for i := range 8 {
		all = append(all, p.create(fmt.Sprint(i)))
	}
	client := refusing{s, "5"}
	picky := wal.New(client, p.Options)
	for _, o := range s.All() {
		picky.Observe(t.Context(), o)
	}
	picky.Start(t.Context())
	var batch []*v1alpha1.CDEventSubject
	for _, o := range all {
		batch = append(batch, next(o, "says "+o.Spec.Name))
	}
	errs := picky.CommitTogether(t.Context(), batch)
	for i, err := range errs {
		if refused := i == 5; refused != apierrors.IsRequestEntityTooLargeError(err) || !refused && err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	want := map[string]string{}
	for i := range 8 {
		want[fmt.Sprint(i)] = "says " + fmt.Sprint(i)
	}
	want["5"] = ""
	if got := view(s); !maps.Equal(got, want) {
		t.Errorf("users see %v, want %v", got, want)
	}
}

// An earlier build writes objects as they are, and knows no revision.
func TestEarlierBuildWroteMeanwhile(t *testing.T) {
	t.Parallel()
	s := store.New()
	earlier := subject("cart")
	earlier.Status.LastEvent = "by an earlier build"
	if _, err := s.Create(t.Context(), earlier, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p := start(t, s, 3)
	p.want("cart", "by an earlier build")
	current, err := p.Get(t.Context(), "service-cart", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.update(current, "in the log")
	start(t, s, 3).want("cart", "in the log")
	// The earlier build comes back, and writes after the log.
	back := s.Peek("service-cart").DeepCopy()
	back.Status.LastEvent, back.Status.Revision = "by the earlier build again", 0
	if _, err := s.Update(t.Context(), back, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	start(t, s, 3).want("cart", "by the earlier build again")
	p.follow()
	p.want("cart", "by the earlier build again")
}

func TestNothingIsWrittenBeforeTheLogIsRead(t *testing.T) {
	t.Parallel()
	s := store.New()
	p := start(t, s, 3)
	cart := p.create("cart")
	fresh := wal.New(s, p.Options)
	if _, err := fresh.Update(t.Context(), next(cart, "too early"), metav1.UpdateOptions{}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("%v, want that the log is not read", err)
	}
	if _, err := fresh.Create(t.Context(), subject("shop"), metav1.CreateOptions{}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("%v, want that the log is not read", err)
	}
	p.Stop()
	if _, err := p.Update(t.Context(), next(cart, "too late"), metav1.UpdateOptions{}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("%v, want that the log is not read", err)
	}
}

// A finished CDEventSubject is deleted only when its object has the last state.
func TestDelete(t *testing.T) {
	t.Parallel()
	s := store.New()
	p := start(t, s, 3)
	cart := p.create("cart")
	last := next(cart, "removed")
	last.Status.Removed = true
	last, err := p.Update(t.Context(), last, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stale := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &cart.ResourceVersion}}
	if err := p.Delete(t.Context(), cart.Name, stale); !apierrors.IsConflict(err) {
		t.Errorf("%v, want a conflict", err)
	}
	if err := p.Delete(t.Context(), cart.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &last.ResourceVersion}}); err != nil {
		t.Fatal(err)
	}
	if s.Has(cart.Name) || slices.Contains(slices.Collect(maps.Keys(view(s))), "cart") {
		t.Error("it is still there")
	}
	if got := start(t, s, 3); got.says("cart") == "removed" {
		t.Error("the next process restores it")
	}
}

// refusing is an API server that refuses a log with a state of one CDEventSubject.
type refusing struct {
	*store.Store
	name string
}

func (r refusing) Update(ctx context.Context, o *v1alpha1.CDEventSubject, opts metav1.UpdateOptions) (*v1alpha1.CDEventSubject, error) {
	for _, s := range wal.Folded([]v1alpha1.CDEventSubject{*o}, func(*v1alpha1.CDEventSubject) bool { return false }) {
		if o.Spec.Kind == wal.Kind && s.Spec.Name == r.name {
			return nil, &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonRequestEntityTooLarge, Code: 413}}
		}
	}
	return r.Store.Update(ctx, o, opts)
}

// States that are large together go into several slots, or into checkpoints.
func TestLargeStates(t *testing.T) {
	t.Parallel()
	s := store.New()
	p := start(t, s, 4)
	const printable = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%()*+,-./:;=?@[]^_{|}~"
	large := func(seed uint64) string { // does not compress
		rng, text := rand.New(rand.NewPCG(seed, 1)), make([]byte, 60_000)
		for i := range text {
			text[i] = printable[rng.IntN(len(printable))]
		}
		return string(text)
	}
	var batch []*v1alpha1.CDEventSubject
	want := map[string]string{}
	for i := range 12 {
		name := fmt.Sprint(i)
		want[name] = large(uint64(i))
		batch = append(batch, next(p.create(name), want[name]))
	}
	for i, err := range p.CommitTogether(t.Context(), batch) {
		if err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	if got := view(s); !maps.Equal(got, want) {
		t.Error("users see something else")
	}
	for _, o := range s.All() {
		if n := len(o.Status.Compressed); n > 128<<10 {
			t.Errorf("%s has %d bytes", o.Name, n)
		}
	}
}
