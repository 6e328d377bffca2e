// SPDX-License-Identifier: Apache-2.0

package source

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/route"
)

// TestConditionOfSourceAboveLimit covers clusters without the webhook.
func TestConditionOfSourceAboveLimit(t *testing.T) {
	t.Parallel()
	for _, namespace := range []string{"shop", systemNamespace} {
		h := newFixture(t)
		var all []*v1alpha1.CDEventSource
		for i := range route.MaxSources + 1 {
			s := &v1alpha1.CDEventSource{ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: fmt.Sprintf("s%02d", i), UID: types.UID(fmt.Sprint("uid-", i)),
				CreationTimestamp: metav1.NewTime(start.Add(time.Duration(i) * time.Second)),
			}}
			s.Spec.Sink.URI = apis.HTTP("sink.example.com")
			if err := h.indexer.Add(s); err != nil {
				t.Fatal(err)
			}
			all = append(all, s)
		}
		for i, s := range all {
			s = s.DeepCopy()
			conditions := s.GetConditionSet().Manage(s.GetStatus())
			conditions.InitializeConditions()
			h.valid(s, conditions)
			c := s.Status.GetCondition(v1alpha1.SourceConditionValid)
			if surplus := i == route.MaxSources && namespace == "shop"; surplus != c.IsFalse() {
				t.Errorf("%s/%s: %+v", namespace, s.Name, c)
			} else if surplus && (c.Reason != "TooManySources" || !strings.Contains(c.Message, "delete one that is not needed")) {
				t.Errorf("%+v", c)
			}
		}
	}
}
