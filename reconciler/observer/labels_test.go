package observer

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// plain is a kind whose only part carries its snapshot.
type plain struct{ live types.UID }

func (*plain) APIVersion() string                                              { return "v1" }
func (*plain) Name() string                                                    { return "Service" }
func (*plain) Served() bool                                                    { return true }
func (*plain) Keys() []types.NamespacedName                                    { return nil }
func (*plain) Cached(types.NamespacedName) Parts                               { return nil }
func (p *plain) Live(context.Context, types.NamespacedName) (types.UID, error) { return p.live, nil }
func (*plain) Fetch(context.Context, string, []string) (Parts, error)          { return nil, nil }
func (*plain) Position() string                                                { return "" }
func (*plain) EnqueueKey(types.NamespacedName)                                 {}
func (*plain) EnqueueSlowKey(types.NamespacedName)                             {}
func (*plain) NamespaceLabels(string) (map[string]string, bool, error)         { return nil, false, nil }
func (*plain) Exists(types.UID) bool                                           { return false }

func (*plain) Operator(types.UID) bool { return false }

func (*plain) Replays(v1alpha1.CDEventSubjectSpec, []types.UID, func() ledger.Labels) []types.UID {
	return nil
}
func (*plain) Refused()              {}
func (*plain) Conflict()             {}
func (*plain) Dropped(string, int64) {}
func (*plain) Compose(p Parts) *Subject {
	s, ok := p["service"].Value.(lifecycle.Snapshot)
	if !ok {
		return nil
	}
	s.Seen = map[string]string{lifecycle.SeenService: p["service"].Version}
	return &Subject{UID: "uid-x", Created: time.Unix(0, 0), Snapshot: s}
}

// asked notes the labels that recipients are chosen by.
type asked struct {
	plain
	last ledger.Labels
}

func (a *asked) Recipients(_ v1alpha1.CDEventSubjectSpec, l ledger.Labels, _ lifecycle.Transition) []ledger.Recipient {
	a.last = l
	return nil
}

func TestALabelThatChangedSilentlyIsKnownAtTheEnd(t *testing.T) {
	ctx, s, router, kind := t.Context(), store.New(), &asked{}, &plain{live: "uid-x"}
	l := ledger.New(s, router, router)
	o := New(Options{
		Kind: kind, Ledger: l, Now: time.Now, Rules: func() lifecycle.Rules { return lifecycle.DefaultRules },
		Since: func(context.Context) (time.Time, error) { return time.Unix(1, 0), nil },
	})
	o.Bind(kind)
	if err := o.Promote(reconciler.UniversalBucket(), func(reconciler.Bucket, types.NamespacedName) {}); err != nil {
		t.Fatal(err)
	}
	o.Start()
	key := types.NamespacedName{Namespace: "shop", Name: "cart"}
	see := func(version string, value any) {
		t.Helper()
		o.Saw(key, Part{Name: "service", Version: version, Root: true, Owner: "uid-x", Value: value})
		if err := o.Reconcile(ctx, key.String()); err != nil {
			t.Fatal(err)
		}
	}
	x, y := map[string]string{"tier": "x"}, map[string]string{"tier": "y"}
	see("1", lifecycle.Snapshot{Labels: x})
	see("2", lifecycle.Snapshot{Labels: x, Generation: 2}) // known here only
	see("3", lifecycle.Snapshot{Labels: y, Generation: 2})
	writes := s.Writes()
	see("4", lifecycle.Snapshot{Labels: y, Generation: 3})
	if s.Writes() != writes {
		t.Errorf("%d writes though nothing had to be saved", s.Writes()-writes)
	}
	kind.live = ""
	see("5", nil)
	if router.last.Own["tier"] != "y" {
		t.Errorf("removed was routed by %v", router.last.Own)
	}
}
