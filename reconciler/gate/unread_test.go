// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"encoding/json"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate/customrun"
	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
)

// loosen changes our CRD so that a schedule may be anything, as another version may have
// allowed.
func loosen(t *testing.T, dyn dynamic.Interface) {
	t.Helper()
	definitions := dyn.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	const schedule = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/schedule"
	_, err := definitions.Patch(t.Context(), "canarygates.knative-cdevents.dev", types.JSONPatchType,
		[]byte(`[{"op":"replace","path":"`+schedule+`","value":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}]`), metav1.PatchOptions{})
	must(t, err)
}

// TestUnreadableGateAffectsNoOther: Tekton's CRD accepts anything. An unreadable run fails with a
// reason, and the others are judged.
func TestUnreadableGateAffectsNoOther(t *testing.T) {
	cp := controlplane.Start(t)
	th := open(t, cp)
	must(t, cp.InstallCustomRuns(t.Context()))
	dyn, err := dynamic.NewForConfig(cp.Config())
	must(t, err)
	bad := &unstructured.Unstructured{}
	must(t, json.Unmarshal([]byte(`{"apiVersion":"knative-cdevents.dev/v1alpha1","kind":"CanaryGate","metadata":{"name":"bad"},"spec":{"service":"cart","schedule":{"timeout":"soon"}}}`), &bad.Object))
	loosen(t, dyn)
	for range 100 { // until the API server uses the looser CRD
		if _, err = dyn.Resource(v1alpha1.GateResource).Namespace(namespace).Create(t.Context(), bad, metav1.CreateOptions{}); err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	must(t, err)
	th.ask("timeout", embedded("good", `,"timeout":"soon"`))
	th.ask("by-reference", `{"customRef":{"apiVersion":"knative-cdevents.dev/v1alpha1","kind":"CanaryGate","name":"bad"}}`)
	t.Cleanup(th.process())

	th.ends("timeout", no, customrun.InvalidSpec, "Error", "spec.timeout cannot be read")
	th.ends("by-reference", no, customrun.InvalidSpec, "Error", "spec.schedule.timeout cannot be read")
	th.service("good")
	th.ask("good", embedded("good", ""))
	th.judging("good")
	for range 200 {
		gate, err := th.gates.Get(t.Context(), "bad", metav1.GetOptions{})
		must(t, err)
		if c := gate.Status.GetCondition(v1alpha1.GateValid); c.IsFalse() {
			if c.Reason != customrun.InvalidSpec || c.Message == "" {
				t.Errorf("%+v", c)
			}
			if found := gate.Status.GetCondition(v1alpha1.GateServiceFound); found.IsFalse() && found.Reason == customrun.InvalidSpec {
				t.Errorf("%+v", found)
			}
			return
		}
		time.Sleep(25 * time.Millisecond)
	}
	t.Error("the unreadable gate does not report it")
}
