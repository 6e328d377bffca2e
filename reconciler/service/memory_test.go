package service

import (
	"strings"
	"testing"

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
		if len(c) != 1 || c[0].Status != metav1.ConditionFalse || c[0].Reason != "WrongAnnotations" || !strings.HasSuffix(c[0].Message, "annotation x is y") {
			t.Errorf("conditions with wrong annotations: %+v", c)
		}
	}
	if c := conditions(lifecycle.Revision{}, "pekko"); len(c) != 1 || c[0].Status != metav1.ConditionTrue || c[0].Message != "runtime pekko" {
		t.Errorf("conditions of a declared cluster: %+v", c)
	}
}

func TestInvalidMemoryIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := NewKind(nil, nil, nil, nil).Recall([]byte(`{"sequence": "x"}`)); err == nil {
		t.Error("no error for a memory that is not valid")
	}
}
