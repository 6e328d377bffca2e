// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// overtaken is an API server some of whose answers arrive after the informer has shown what came later.
type overtaken struct {
	*store.Store
	updated, got func()
}

func (o *overtaken) Update(ctx context.Context, s *v1alpha1.CDEventSubject, opts metav1.UpdateOptions) (*v1alpha1.CDEventSubject, error) {
	out, err := o.Store.Update(ctx, s, opts)
	if f := o.updated; f != nil {
		o.updated = nil
		f()
	}
	return out, err
}

func (o *overtaken) Get(ctx context.Context, name string, opts metav1.GetOptions) (*v1alpha1.CDEventSubject, error) {
	out, err := o.Store.Get(ctx, name, opts)
	if f := o.got; f != nil {
		o.got = nil
		f()
	}
	return out, err
}

// continues checks that an entry that was deleted by hand is restored, and that the next transition follows the others.
func continues(t *testing.T, s *store.Store, l *ledger.Ledger, q *acks, seen *int) {
	t.Helper()
	must(t, q.write(l))
	follow(s, l, seen)
	for range 3 { // as an observer does
		if add(l, lifecycle.Published, "") == nil {
			break
		}
		follow(s, l, seen)
		must(t, q.write(l))
	}
	if o := s.Peek(ledger.Name(cart)); o == nil || o.Status.Sequence != 3 {
		t.Errorf("the entry is %+v, want one with three transitions", o)
	}
	if got := sequences(l.Pending(key, "a")); got != "1 2 3" {
		t.Errorf("pending %q, want 1 2 3", got)
	}
}

// An entry is deleted by hand right after a write, and the informer shows that before the write is answered.
func TestDeletionThatIsSeenBeforeTheAnswerToAWrite(t *testing.T) {
	client, seen := &overtaken{Store: store.New()}, 0
	l, q := queued(client, everyone{"a"}, &counts{})
	must(t, add(l, lifecycle.Created, ""))
	client.updated = func() {
		client.Remove(ledger.Name(cart))
		follow(client.Store, l, &seen)
	}
	must(t, add(l, lifecycle.Deployed, ""))
	continues(t, client.Store, l, q, &seen)
}

// As above, while the entry is read after a conflict.
func TestDeletionThatIsSeenBeforeTheAnswerToARead(t *testing.T) {
	client, seen := &overtaken{Store: store.New()}, 0
	l, q := queued(client, everyone{"a"}, &counts{})
	must(t, add(l, lifecycle.Created, ""))
	client.Annotate(ledger.Name(cart), "note", "by hand") // the next write conflicts
	client.got = func() {
		client.Remove(ledger.Name(cart))
		follow(client.Store, l, &seen)
	}
	if add(l, lifecycle.Deployed, "") != nil {
		must(t, add(l, lifecycle.Deployed, ""))
	}
	continues(t, client.Store, l, q, &seen)
}

// Another replica restores an entry that was deleted by hand, and this one sees that before it does so itself.
func TestEntryThatAnotherReplicaRestores(t *testing.T) {
	s, c, seen := store.New(), &counts{}, 0
	l, q := queued(s, everyone{"a"}, c)
	must(t, add(l, lifecycle.Created, ""))
	follow(s, l, &seen)
	other, theirs := queued(s, everyone{"a"}, &counts{})
	s.Remove(ledger.Name(cart))
	at := 0
	follow(s, other, &at)
	follow(s, l, &seen)
	must(t, theirs.write(other))
	follow(s, l, &seen)
	must(t, q.write(l))
	must(t, add(l, lifecycle.Deployed, ""))
	if o := s.Peek(ledger.Name(cart)); o == nil || o.Status.Sequence != 2 || c.conflicts > 0 {
		t.Errorf("the entry is %+v, after %d conflicts", o, c.conflicts)
	}
}

// An event is acknowledged that another replica has journaled, while this one reads an older state after a conflict. The
// acknowledgement counts.
func TestAcknowledgementDuringAReadThatIsOvertaken(t *testing.T) {
	client, seen := &overtaken{Store: store.New()}, 0
	l, q := queued(client, everyone{"a"}, &counts{})
	must(t, add(l, lifecycle.Created, ""))
	other, _ := queued(client.Store, everyone{"a"}, &counts{})
	for _, o := range client.All() {
		other.Observe(o)
	}
	must(t, add(other, lifecycle.Deployed, ""))
	client.got = func() {
		must(t, add(other, lifecycle.Published, ""))
		follow(client.Store, l, &seen)
		for i := range int64(3) {
			acknowledge(l, ledger.Name(cart), "a", i+1)
		}
	}
	must(t, add(l, lifecycle.Upgraded, ""))
	must(t, q.write(l))
	if got := sequences(l.Pending(key, "a")); got != "4" {
		t.Errorf("pending %q, want 4", got)
	}
}
