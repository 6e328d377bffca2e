// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What the age of a pod and of its processes counts from is read from its status.
func TestAgesOfAPod(t *testing.T) {
	t.Parallel()
	at := func(minute int) metav1.Time { return metav1.Unix(1.8e9+60*int64(minute), 0) }
	running := func(minute int) corev1.ContainerState {
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(minute)}}
	}
	pod := podOf("cart", "cart-00001", "a")
	began := at(1)
	pod.Status.StartTime = &began
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodReady, Status: corev1.ConditionTrue,
		LastTransitionTime: at(4),
	}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: "user-container", State: running(3)},
		{Name: "queue-proxy", State: running(2)},
	}
	check := func(what string, began, ready time.Time, started ...time.Time) {
		t.Helper()
		p := projected(pod)
		if !p.Began.Equal(began) || !p.ReadySince.Equal(ready) || p.Ready == p.ReadySince.IsZero() {
			t.Errorf("%s: it began at %s, and is ready since %s", what, p.Began, p.ReadySince)
		}
		for i, want := range started {
			if !p.Containers[i].Started.Equal(want) {
				t.Errorf("%s: container %s started at %s, want %s", what, p.Containers[i].Name, p.Containers[i].Started, want)
			}
		}
	}
	check("ready", at(1).Time, at(4).Time, at(3).Time, at(2).Time)
	pod.Status.Conditions[0] = corev1.PodCondition{
		Type: corev1.PodReady, Status: corev1.ConditionFalse,
		LastTransitionTime: at(5),
	}
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", StartedAt: at(3)}}
	check("killed", at(1).Time, time.Time{}, time.Time{}, at(2).Time)
	pod.Status.ContainerStatuses[0].State = running(6)
	pod.Status.Conditions[0] = corev1.PodCondition{
		Type: corev1.PodReady, Status: corev1.ConditionTrue,
		LastTransitionTime: at(7),
	}
	check("started again", at(1).Time, at(7).Time, at(6).Time, at(2).Time)
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	check("not yet accepted", time.Time{}, time.Time{})
}

// Kubernetes says that it ends a pod for a reason outside of it by a condition, whatever the condition's reason is.
func TestDisruptedPod(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{
		corev1.PodReasonPreemptionByScheduler, corev1.PodReasonTerminationByKubelet, "DeletionByTaintManager",
		"EvictionByEvictionAPI", "DeletionByPodGC", "",
	} {
		for status, want := range map[corev1.ConditionStatus]bool{
			corev1.ConditionTrue: true, corev1.ConditionFalse: false,
			corev1.ConditionUnknown: false,
		} {
			pod := podOf("cart", "cart-00001", "a")
			pod.Status.Conditions = append(pod.Status.Conditions,
				corev1.PodCondition{Type: corev1.DisruptionTarget, Status: status, Reason: reason})
			if p := projected(pod); p.Disrupted != want || !p.Ready {
				t.Errorf("%s %s: disrupted is %v, ready is %v", reason, status, p.Disrupted, p.Ready)
			}
		}
	}
	if projected(podOf("cart", "cart-00001", "a")).Disrupted {
		t.Error("a pod without that condition is disrupted")
	}
}

func TestCrashLoop(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]bool{
		"CrashLoopBackOff": true, "ContainerCreating": false,
		"ImagePullBackOff": false,
	} {
		pod := podOf("cart", "cart-00001", "a")
		pod.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: reason}
		if got := projected(pod).Containers[0].CrashLoop; got != want {
			t.Errorf("%s: %v", reason, got)
		}
	}
	if projected(podOf("cart", "cart-00001", "a")).Containers[0].CrashLoop {
		t.Error("a container that runs is in a crash loop")
	}
}
