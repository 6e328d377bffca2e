package main

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	"github.com/knative-cdevents/knative-cdevents/reconciler/service"
)

func TestManyChangesAreOneLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := again{every: againEvery}
		var looked [][]string
		look := func(in map[string]bool) { looked = append(looked, slices.Sorted(maps.Keys(in))) }
		for i := range 100 {
			a.want([]string{"shop", "bank"}[i%2], look)
			time.Sleep(againEvery / 1000)
		}
		if len(looked) != 1 || !slices.Equal(looked[0], []string{"shop"}) {
			t.Errorf("at once: %q", looked)
		}
		time.Sleep(againEvery)
		if len(looked) != 2 || !slices.Equal(looked[1], []string{"bank", "shop"}) {
			t.Errorf("after a while: %q", looked)
		}
		time.Sleep(againEvery)
		if a.want(everywhere, look); len(looked) != 3 {
			t.Errorf("after a pause: %q", looked)
		}
	})
}

// scattered is a kind with objects in several namespaces.
type scattered struct{ fakeKind }

func (scattered) Keys() []types.NamespacedName {
	return []types.NamespacedName{cartKey, {Namespace: "bank", Name: "till"}, {Namespace: "knative-cdevents", Name: "own"}}
}

// A tenant's edits cost the leader no look at the Services of others.
func TestASourceIsLookedAtWhereItSees(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		namespace string
		selector  *metav1.LabelSelector
		want      []string
	}{
		"a tenant's":              {"shop", nil, []string{"shop"}},
		"a tenant's, with others": {"shop", &metav1.LabelSelector{}, []string{"shop"}},
		"the operator's own":      {"knative-cdevents", nil, []string{"knative-cdevents"}},
		"the operator's":          {"knative-cdevents", &metav1.LabelSelector{}, []string{"bank", "knative-cdevents", "shop"}},
	} {
		e, _, _ := following(t)
		queue := &noted{}
		ob := observer.New(observer.Options{Kind: scattered{}, Ledger: ledger.New(nil, nil, nil)})
		ob.Bind(queue)
		e.services.Store(&service.Watch{Observer: ob})
		was := aged(c.namespace, 1)
		was.Spec.Replay, was.Spec.NamespaceSelector = v1alpha1.ReplayCurrent, c.selector
		is := was.DeepCopy()
		is.Generation++
		e.sourcesFollowed().OnUpdate(was, is)
		var got []string
		for _, key := range queue.keys {
			got = append(got, key.Namespace)
		}
		if slices.Sort(got); !slices.Equal(got, c.want) {
			t.Errorf("%s: looked at %q", name, got)
		}
	}
}
