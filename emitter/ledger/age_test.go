// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
)

// The API server's clock decides how old an object is, and it stores nothing when it is asked.
func TestAgeOfAnObjectThatIsGone(t *testing.T) {
	cs, err := client.New(controlplane.Start(t).Config())
	must(t, err)
	subjects := cs.CDEventSubjects("default")
	l := ledger.New(subjects, everyone{"a"}, &counts{})
	now := time.Now() // of the same machine
	for age, want := range map[time.Duration]bool{time.Minute: false, time.Hour: true} {
		forgotten, err := l.MayHaveForgotten(t.Context(), cart, now.Add(-age))
		if must(t, err); forgotten != want {
			t.Errorf("an object that is %s old may be forgotten: %v, want %v", age, forgotten, want)
		}
	}
	if o, err := subjects.Get(t.Context(), ledger.Name(cart), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("%+v is stored, %v", o, err)
	}
	must(t, add(ledger.New(subjects, everyone{"a"}, &counts{}), lifecycle.Created, ""))
	if forgotten, err := l.MayHaveForgotten(t.Context(), cart, now.Add(-time.Hour)); err != nil || forgotten {
		t.Errorf("an object with an entry counts as forgotten: %v, %v", forgotten, err)
	}
}
