// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

func TestConflictingWriters(t *testing.T) {
	s := store.New()
	c := &counts{}
	mine, theirs := ledger.New(s, everyone{"a"}, c), ledger.New(s, everyone{"a"}, &counts{})
	must(t, add(mine, lifecycle.Created, ""))
	must(t, add(theirs, lifecycle.Deployed, "")) // does not know the object: AlreadyExists
	must(t, add(mine, lifecycle.Published, ""))  // has an old version: Conflict
	o := s.All()[0]
	if o.Status.Sequence != 3 || len(o.Status.Journal) != 3 || c.conflicts != 1 {
		t.Errorf("sequence %d, %d journaled, %d conflicts", o.Status.Sequence, len(o.Status.Journal), c.conflicts)
	}
	if got := sequences(mine.Pending(key, "a")); got != "1 2 3" {
		t.Errorf("pending %s", got)
	}
}

func TestConcurrentWritersLoseNothing(t *testing.T) {
	s := store.New()
	leaders := []*ledger.Ledger{ledger.New(s, everyone{"a"}, &counts{}), ledger.New(s, everyone{"a"}, &counts{})}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 25 {
				for add(leaders[i%2], lifecycle.TrafficShifted, "") != nil {
					time.Sleep(time.Millisecond) // too many conflicts in a row
				}
			}
		})
	}
	wg.Wait()
	o := s.All()[0]
	if o.Status.Sequence != 200 || len(o.Status.Journal) != 200 {
		t.Errorf("sequence %d, %d journaled", o.Status.Sequence, len(o.Status.Journal))
	}
}

func TestLostResponseIsNotJournaledTwice(t *testing.T) {
	s := store.New()
	l := ledger.New(s, everyone{"a"}, &counts{})
	must(t, add(l, lifecycle.Created, ""))
	s.After = func(string, string) error {
		s.After = nil
		return apierrors.NewTimeoutError("the response is lost", 1)
	}
	decide := func(current *v1alpha1.CDEventSubject) (*ledger.Change, error) {
		if current.Status.Sequence == 2 {
			return nil, nil
		}
		t2 := lifecycle.Transition{Sequence: 2, Time: noon, Type: lifecycle.Deployed}
		return &ledger.Change{Memory: lifecycle.Memory{Sequence: 2}, Transitions: []lifecycle.Transition{t2}}, nil
	}
	if err := l.Journal(context.Background(), cart, decide); err == nil || !strings.Contains(err.Error(), "service-u1") {
		t.Fatalf("got %v", err)
	}
	must(t, l.Journal(context.Background(), cart, decide))
	if got := sequences(l.Pending(key, "a")); got != "1 2" {
		t.Errorf("pending %s", got)
	}
}
