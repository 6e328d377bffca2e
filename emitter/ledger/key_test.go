// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

func cluster(apiVersion string, uid types.UID) v1alpha1.CDEventSubjectSpec {
	return v1alpha1.CDEventSubjectSpec{APIVersion: apiVersion, Kind: "Cluster", Namespace: "fleet", Name: "prod", UID: uid}
}

func TestKindsOfTwoGroupsShareAName(t *testing.T) {
	l := ledger.New(store.New(), everyone{"a"}, &counts{})
	declared, provisioned := cluster("cluster.x-k8s.io/v1beta2", "u1"), cluster("eks.aws.upbound.io/v1beta1", "u2")
	for _, spec := range []v1alpha1.CDEventSubjectSpec{declared, provisioned} {
		must(t, l.Journal(t.Context(), spec, func(*v1alpha1.CDEventSubject) (*ledger.Change, error) {
			return &ledger.Change{Memory: lifecycle.Memory{}}, nil
		}))
	}
	for _, spec := range []v1alpha1.CDEventSubjectSpec{declared, provisioned} {
		subjects := l.Subjects(ledger.KeyOf(spec))
		if len(subjects) != 1 || subjects[0].Spec != spec {
			t.Errorf("under %s: %v", ledger.KeyOf(spec), subjects)
		}
		if !slices.Contains(l.Keys(), ledger.KeyOf(spec)) {
			t.Errorf("keys %v lack %s", l.Keys(), ledger.KeyOf(spec))
		}
	}
}

func TestAKeyOutlivesTheVersionOfItsKind(t *testing.T) {
	before, after := ledger.KeyOf(cluster("cluster.x-k8s.io/v1beta1", "u1")), ledger.KeyOf(cluster("cluster.x-k8s.io/v1beta2", "u1"))
	if before != after {
		t.Errorf("%v became %v", before, after)
	}
	if got, want := after.String(), "Cluster.cluster.x-k8s.io fleet/prod"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := ledger.KeyOf(v1alpha1.CDEventSubjectSpec{APIVersion: "v1", Kind: "Node", Name: "a"}).String(), "Node /a"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
