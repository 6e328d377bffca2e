// SPDX-License-Identifier: Apache-2.0

package servicestate

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/pods"
)

// The labels of a pod may change after it was verified.
func TestRelabeledPodIsVerifiedAgain(t *testing.T) {
	t.Parallel()
	there := &fakePods{pods: []*pods.Pod{running("p1", "", nil)}, strangers: map[types.UID]bool{}}
	v, warned := viewOf(there, lifecycle.Snapshot{Revisions: map[string]*lifecycle.Revision{"cart-1": {Name: "cart-1", UID: "r1"}, "cart-2": {Name: "cart-2", UID: "r2"}}})
	look := func(change func(*pods.Pod)) (members, claimed int) {
		pod := *there.pods[0]
		change(&pod)
		there.pods[0] = &pod
		f := v.Facts(cartKey)
		if len(f.Pods) > 0 && there.strangers["p1"] {
			t.Errorf("%s counts for Revision %s before it is verified again", pod.UID, pod.RevisionUID)
		}
		v.Targets(t.Context(), cartKey)
		f = v.Facts(cartKey)
		return len(f.Pods), len(f.Claimed)
	}
	if n, _ := look(func(*pods.Pod) {}); n != 1 || there.asked != 1 {
		t.Fatalf("%d pods, asked %d times", n, there.asked)
	}
	if n, _ := look(func(p *pods.Pod) { p.IP = "10.0.0.1" }); n != 1 || there.asked != 1 {
		t.Errorf("with an address: %d pods, asked %d times", n, there.asked)
	}
	if n, _ := look(func(p *pods.Pod) { p.IP, p.Ready = "", false }); n != 1 || there.asked != 1 {
		t.Errorf("without an address again: %d pods, asked %d times", n, there.asked)
	}
	there.strangers["p1"] = true
	if n, claimed := look(func(p *pods.Pod) { p.Revision, p.RevisionUID = "cart-2", "r2" }); n != 0 || claimed != 1 || *warned != 1 {
		t.Errorf("with the labels of another Revision: %d pods, %d claimed, %d warnings", n, claimed, *warned)
	}
}
