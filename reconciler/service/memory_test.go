// SPDX-License-Identifier: Apache-2.0

package service

import (
	"strings"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

func TestConditionReportsWrongAnnotations(t *testing.T) {
	t.Parallel()
	conditions := func(newest lifecycle.Revision, runtime string) []metav1.Condition {
		m := memory{Memory: lifecycle.Memory{Revisions: map[string]lifecycle.KnownRevision{"r": {Revision: newest}}}}
		if runtime != "" {
			m.Cluster = &lifecycle.ClusterMemory{Runtime: runtime}
		}
		return m.Conditions()
	}
	if c := conditions(lifecycle.Revision{}, ""); len(c) != 0 {
		t.Errorf("conditions without a declaration: %+v", c)
	}
	wrong := lifecycle.Revision{Misdeclared: "annotation x is y"}
	for _, runtime := range []string{"", "pekko"} {
		c := conditions(wrong, runtime)
		if len(c) != 1 || c[0].Status != metav1.ConditionFalse || c[0].Reason != "InvalidAnnotations" ||
			!strings.HasSuffix(c[0].Message, "annotation x is y") {
			t.Errorf("conditions with wrong annotations: %+v", c)
		}
	}
	if c := conditions(lifecycle.Revision{}, "pekko"); len(c) != 1 || c[0].Status != metav1.ConditionTrue ||
		c[0].Message != "runtime pekko" {
		t.Errorf("conditions of a declared cluster: %+v", c)
	}
}

func TestConditionSaysWhoAssignsShards(t *testing.T) {
	t.Parallel()
	condition := func(p *lifecycle.PlacementMemory) *metav1.Condition {
		m := memory{Memory: lifecycle.Memory{Cluster: &lifecycle.ClusterMemory{Runtime: "pekko", Placement: p}}}
		return apimeta.FindStatusCondition(m.Conditions(), ConditionPlacement)
	}
	if c := condition(nil); c != nil {
		t.Errorf("a cluster without a plan has %+v", c)
	}
	if c := condition(&lifecycle.PlacementMemory{}); c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("a coordinator that follows the plan: %+v", c)
	}
	c := condition(&lifecycle.PlacementMemory{Coordinator: "cart-00001"})
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != "CoordinatorWithoutPlacement" ||
		!strings.Contains(c.Message, "cart-00001 does not declare") {
		t.Errorf("a coordinator without placement: %+v", c)
	}
}

func TestInvalidMemoryIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := NewKind(nil, nil, nil, nil).Recall([]byte(`{"sequence": "x"}`)); err == nil {
		t.Error("no error for a memory that is not valid")
	}
}

func TestConditionSaysThatTheClusterIsInTrouble(t *testing.T) {
	t.Parallel()
	m := memory{Memory: lifecycle.Memory{Cluster: &lifecycle.ClusterMemory{Runtime: "sidecar"}}}
	if c := apimeta.FindStatusCondition(m.Conditions(), ConditionCluster); c != nil {
		t.Errorf("without an incident: %+v", c)
	}
	m.Episodes = map[lifecycle.Incident]*lifecycle.Episode{lifecycle.ClusterTrouble: {Reason: "SidecarMissing", Since: time.Unix(0, 0)}}
	c := apimeta.FindStatusCondition(m.Conditions(), ConditionCluster)
	if c == nil || c.Status != metav1.ConditionTrue || c.Reason != "SidecarMissing" || !strings.HasSuffix(c.Message, "1970-01-01T00:00:00Z") {
		t.Errorf("%+v", c)
	}
	// An incident that predates the first observation was not announced, and has no reason.
	m.Episodes[lifecycle.ClusterTrouble].Reason = ""
	if c := apimeta.FindStatusCondition(m.Conditions(), ConditionCluster); c != nil {
		t.Errorf("%+v", c)
	}
}
