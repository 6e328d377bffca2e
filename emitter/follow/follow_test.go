// SPDX-License-Identifier: Apache-2.0

package follow_test

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/follow"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// notified records what it is told, in order. A state with a sequence is that of another process.
type notified []string

func (n *notified) Observe(s *v1alpha1.CDEventSubject) bool {
	*n = append(*n, "observe "+s.ResourceVersion)
	return s.Status.Sequence > 0
}

func (n *notified) Forget(_ *v1alpha1.CDEventSubject, certain bool) {
	*n = append(*n, map[bool]string{true: "forget", false: "forget, perhaps"}[certain])
}

func (n *notified) Notify(key ledger.Key) { *n = append(*n, "notify "+key.String()) }

func (n *notified) Reverted() { *n = append(*n, "reverted") }

func TestEntriesAreFollowed(t *testing.T) {
	t.Parallel()
	entry := func(version string, sequence int64) *v1alpha1.CDEventSubject {
		return &v1alpha1.CDEventSubject{
			ObjectMeta: metav1.ObjectMeta{ResourceVersion: version},
			Spec: v1alpha1.CDEventSubjectSpec{
				APIVersion: "serving.knative.dev/v1", Kind: "Service", Namespace: "shop",
				Name: "cart",
			},
			Status: v1alpha1.CDEventSubjectStatus{Sequence: sequence},
		}
	}
	const notify = "notify Service.serving.knative.dev shop/cart"
	for name, c := range map[string]struct {
		happens func(f follow.Subjects)
		want    []string
	}{
		"own write": {func(f follow.Subjects) { f.OnAdd(entry("1", 0), false) }, []string{"observe 1"}},
		"write of another process": {
			func(f follow.Subjects) { f.OnUpdate(entry("1", 0), entry("2", 7)) },
			[]string{"observe 2", notify},
		},
		"back in time": {
			func(f follow.Subjects) { f.OnUpdate(entry("2", 0), entry("1", 0)) },
			[]string{"reverted", "observe 1"},
		},
		"deleted": {func(f follow.Subjects) { f.OnDelete(entry("1", 0)) }, []string{"forget", notify}},
		"deleted unnoticed": {
			func(f follow.Subjects) { f.OnDelete(cache.DeletedFinalStateUnknown{Obj: entry("1", 0)}) },
			[]string{"forget, perhaps", notify},
		},
	} {
		var got notified
		if c.happens(follow.Subjects{Ledger: &got, Observers: &got, Restarter: &got}); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
