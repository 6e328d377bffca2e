// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate/customrun"
)

// TestMissingPermissionForCustomRuns: the missing permission is logged once, and not requested again at once.
func TestMissingPermissionForCustomRuns(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zapcore.WarnLevel)
	ctx, stop := context.WithCancel(logging.WithLogger(t.Context(), zap.New(core).Sugar()))
	r := &runs{}
	refused := apierrors.NewForbidden(customrun.Resource.GroupResource(), "", errors.New("no"))
	ended := make(chan struct{})
	go func() {
		r.failed(ctx, nil, refused)
		close(ended)
	}()
	select {
	case <-ended:
		t.Error("the informer asks again at once")
	case <-time.After(100 * time.Millisecond):
	}
	stop()
	<-ended
	r.failed(ctx, nil, refused)
	if n := logs.Len(); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

func TestForeignCustomRunsAreKeptAsNames(t *testing.T) {
	t.Parallel()
	named := func(version string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"customRef": map[string]any{"apiVersion": version, "kind": "CanaryGate"},
		}}}
		u.SetName("r")
		u.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "m"}})
		return u
	}
	ours, err := slim(named("knative-cdevents.dev/v1alpha1"))
	if u, ok := ours.(*unstructured.Unstructured); err != nil || !ok || u.Object["spec"] == nil || u.GetManagedFields() != nil {
		t.Errorf("ours: %+v, %v", ours, err)
	}
	other, err := slim(named("example.dev/v1"))
	if u, ok := other.(*unstructured.Unstructured); err != nil || !ok || u.Object["spec"] != nil || u.GetName() != "r" {
		t.Errorf("another's: %+v, %v", other, err)
	}
}

// hearing receives verdicts, and may not know the Services yet.
type hearing struct {
	known bool
	got   []string
}

func (h *hearing) Service(types.NamespacedName) (*gaterun.Service, bool) { return nil, h.known }

func (h *hearing) Reached(key types.NamespacedName, service types.UID, v lifecycle.Verdict) {
	h.got = append(h.got, key.String()+" "+string(service)+" "+v.Run)
}

func TestProcessReportsEachRunOnce(t *testing.T) {
	t.Parallel()
	now := time.Unix(1.8e9, 0)
	h := &hearing{}
	told := newReporter(func() time.Time { return now }, h, h)
	at := metav1.NewTime(now)
	run := &v1alpha1.GateRun{ID: "1", Service: v1alpha1.GateObject{Name: "cart", UID: "u"}}
	told.report("shop", nil)
	told.report("shop", run) // in progress
	run.CompletionTime = &at
	if told.report("shop", run) || len(h.got) > 0 {
		t.Error("reported before the Services are known")
	}
	h.known = true
	told.report("shop", run)
	told.report("shop", run)
	told.report("shop", &v1alpha1.GateRun{ID: "2", CompletionTime: &at}) // it never found a Service
	now = now.Add(reportPeriod + time.Second)
	told.report("shop", &v1alpha1.GateRun{ID: "3", Service: run.Service, CompletionTime: &at}) // completed long ago
	if len(h.got) != 1 || h.got[0] != "shop/cart u 1" {
		t.Errorf("reported %q", h.got)
	}
	now = at.Time
	told.forget()
	if told.report("shop", run); len(h.got) != 2 {
		t.Error("a new leader does not report the run")
	}
}
