// SPDX-License-Identifier: Apache-2.0

package servicestate

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/pods"
)

// When the autoscaler deletes a pod and its container exits with 143 on SIGTERM, the kubelet
// reports phase Failed until the pod is gone (since Kubernetes 1.27).
func TestScaledInPodHasNotFailed(t *testing.T) {
	t.Parallel()
	scaledIn, evicted := running("p1", "10.0.0.1", nil), running("p2", "10.0.0.2", nil)
	for _, p := range []*pods.Pod{scaledIn, evicted} {
		p.Phase, p.Ready = corev1.PodFailed, false
	}
	scaledIn.Deleting = time.Now()
	v, _ := viewOf(&fakePods{pods: []*pods.Pod{scaledIn, evicted}}, lifecycle.Snapshot{
		Route:     &lifecycle.Route{Effective: true, Traffic: lifecycle.Split{{Revision: "cart-1", Percent: 100}}},
		Revisions: map[string]*lifecycle.Revision{"cart-1": {Name: "cart-1", UID: "r1"}},
	})
	v.Targets(t.Context(), cartKey)
	f := v.Facts(cartKey)
	if len(f.Pods) != 2 || f.Pods[0].Failed || !f.Pods[1].Failed {
		t.Errorf("%+v", f.Pods)
	}
}

// A node that shuts down terminates its pods and rejects newly scheduled ones. These pods remain as Failed
// and are not deleted.
func TestPodEndedByItsNodeHasNotFailed(t *testing.T) {
	t.Parallel()
	for reason, failed := range map[string]bool{
		"Terminated": false, "NodeShutdown": false, "Preempting": false, "OutOfcpu": false, "NodeAffinity": false,
		"Evicted": true, "DeadlineExceeded": true, "": true,
	} {
		p := running("p1", "10.0.0.1", nil)
		p.Phase, p.Ready, p.Reason = corev1.PodFailed, false, reason
		if got := podFacts(p).Failed; got != failed {
			t.Errorf("%q: failed %t", reason, got)
		}
	}
}
