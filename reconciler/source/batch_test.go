// SPDX-License-Identifier: Apache-2.0

package source

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

func TestManyChangesCauseOneReconcile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := batch{every: batchEvery}
		var reconciled [][]string
		reconcile := func(in map[string]bool) { reconciled = append(reconciled, slices.Sorted(maps.Keys(in))) }
		for i := range 100 {
			b.add([]string{"shop", "bank"}[i%2], reconcile)
			time.Sleep(batchEvery / 1000)
		}
		if len(reconciled) != 1 || !slices.Equal(reconciled[0], []string{"shop"}) {
			t.Errorf("immediately: %q", reconciled)
		}
		time.Sleep(batchEvery)
		if len(reconciled) != 2 || !slices.Equal(reconciled[1], []string{"bank", "shop"}) {
			t.Errorf("after the interval: %q", reconciled)
		}
		time.Sleep(batchEvery)
		if b.add(everywhere, reconcile); len(reconciled) != 3 {
			t.Errorf("after an idle interval: %q", reconciled)
		}
	})
}

// If a tenant edits a source, the leader must not reconcile the Services of other tenants.
func TestChangedSourceReconcilesOnlyItsServices(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		namespace string
		selector  *metav1.LabelSelector
		want      []string
	}{
		"tenant":                  {"shop", nil, []string{"shop"}},
		"tenant, with a selector": {"shop", &metav1.LabelSelector{}, []string{"shop"}},
		"system namespace":        {"knative-cdevents", nil, []string{"", "knative-cdevents"}},
		"system namespace, all":   {"knative-cdevents", &metav1.LabelSelector{}, []string{"", "bank", "knative-cdevents", "shop"}},
	} {
		h, _, objects := following(t)
		objects.all = []types.NamespacedName{
			cartKey, {Namespace: "bank", Name: "till"}, {Namespace: "knative-cdevents", Name: "own"}, {Name: "cluster-scoped"},
		}
		was := aged(c.namespace, 1)
		was.Spec.Replay, was.Spec.NamespaceSelector = v1alpha1.ReplayCurrent, c.selector
		is := was.DeepCopy()
		is.Generation++
		h.OnUpdate(was, is)
		var got []string
		for _, key := range objects.keys {
			got = append(got, key.Namespace)
		}
		if slices.Sort(got); !slices.Equal(got, c.want) {
			t.Errorf("%s: reconciled %q, want %q", name, got, c.want)
		}
	}
}
