// SPDX-License-Identifier: Apache-2.0

package oneshot_test

import (
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ktesting "k8s.io/client-go/testing"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
)

// The API server forgets a list after some minutes, and a sweep may take an hour, as when sinks hang. So it lists
// everything before it looks at anything.
func TestSweepListsBeforeItLooks(t *testing.T) {
	c := newCluster(t, sourceTo("sink"))
	c.deploy()
	var looked atomic.Bool
	c.serving.PrependReactor("*", "services", func(a ktesting.Action) (bool, runtime.Object, error) {
		if a.GetVerb() == "get" {
			looked.Store(true)
			return false, nil, nil
		}
		if list, is := a.(ktesting.ListActionImpl); is && list.ListOptions.Continue == "" {
			svc := servingv1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "other"}}
			return true, &servingv1.ServiceList{ListMeta: metav1.ListMeta{Continue: "rest"}, Items: []servingv1.Service{svc}}, nil
		}
		if looked.Load() {
			return true, nil, apierrors.NewResourceExpired("the continue token is too old")
		}
		return false, nil, nil
	})
	must(t, c.core().Sweep(t.Context()))
	c.wants("on the second page", "sink created", "sink ready", "sink deployed", "sink published")
}

// A sweep reports an entry that cannot be read, and still counts what is pending in all others.
func TestSweepCountsInSpiteOfErrors(t *testing.T) {
	c := newCluster(t, sourceTo("sink"))
	c.deploy()
	must(t, c.core().Sweep(t.Context()))
	o := c.entry().DeepCopy()
	o.Status.Memory = "{"
	_, err := c.store.Update(t.Context(), o, metav1.UpdateOptions{})
	must(t, err)
	c.resolved = nil
	if err := c.core().Sweep(t.Context()); err == nil {
		t.Error("the sweep says nothing of it")
	}
	c.resolves("shop/sink of 1", "shop/sink of 1: 0 pending, some false, delivered true, ")
}
