// SPDX-License-Identifier: Apache-2.0

package servicestate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/reconciler/pods"
)

// The age of a pod counts from the youngest process of the user's containers. That of queue-proxy does not matter.
func TestAgesInFacts(t *testing.T) {
	t.Parallel()
	at := func(minute int) time.Time { return time.Unix(1.8e9, 0).Add(time.Duration(minute) * time.Minute) }
	p := running("p1", "10.0.0.1", nil)
	p.Began, p.ReadySince = at(1), at(9)
	p.Containers = []pods.Container{
		{Name: "user-container", ID: "a", Started: at(3)}, {Name: "sidecar", ID: "b", Started: at(5)}, {Name: queueProxy, ID: "c", Started: at(7)},
	}
	want := attribution.Pod{
		UID: "p1", Revision: "r1", Ready: true, Running: true, Began: at(1), Started: at(5), ReadySince: at(9),
	}
	if diff := cmp.Diff(want, podFacts(p)); diff != "" {
		t.Error(diff)
	}
	p.Containers[1].Started = time.Time{} // it is down
	if got := podFacts(p).Started; !got.Equal(at(3)) {
		t.Errorf("the youngest process started at %s", got)
	}
}

// What ends or restarts a pod is its own doing or not.
func TestFateOfAPod(t *testing.T) {
	t.Parallel()
	ended := func(reason string, disrupted bool) func(*pods.Pod) {
		return func(p *pods.Pod) { p.Phase, p.Reason, p.Disrupted = corev1.PodFailed, reason, disrupted }
	}
	loops := func(p *pods.Pod) { p.Containers[0].CrashLoop = true }
	all := func(of ...func(*pods.Pod)) func(*pods.Pod) {
		return func(p *pods.Pod) {
			for _, f := range of {
				f(p)
			}
		}
	}
	type fate struct{ Running, Failed, CrashLoop, Disrupted bool }
	for name, c := range map[string]struct {
		change func(*pods.Pod)
		want   fate
	}{
		"runs":                              {func(*pods.Pod) {}, fate{Running: true}},
		"has not started":                   {func(p *pods.Pod) { p.Phase = corev1.PodPending }, fate{}},
		"is deleted":                        {func(p *pods.Pod) { p.Deleting = time.Unix(1.8e9, 0) }, fate{}},
		"crashes again and again":           {loops, fate{Running: true, CrashLoop: true}},
		"queue-proxy crashes":               {func(p *pods.Pod) { p.Containers[1].CrashLoop = true }, fate{Running: true}},
		"crashes while its node is drained": {all(loops, func(p *pods.Pod) { p.Disrupted = true }), fate{Running: true, Disrupted: true}},
		"crashes while it is deleted":       {all(loops, func(p *pods.Pod) { p.Deleting = time.Unix(1.8e9, 0) }), fate{}},
		"fails":                             {ended("", false), fate{Failed: true}},
		"evicted under pressure":            {ended("Evicted", true), fate{Disrupted: true}},
		// The kubelet sets no condition if a pod exceeds a limit of its own, such as that of an emptyDir.
		"evicted for its own limit":   {ended("Evicted", false), fate{Failed: true}},
		"preempted by the kubelet":    {ended("Preempting", false), fate{Disrupted: true}},
		"its node shuts down":         {ended("Terminated", false), fate{Disrupted: true}},
		"its node has shut down":      {ended("NodeShutdown", false), fate{Disrupted: true}},
		"shut down by an old kubelet": {ended("Shutdown", false), fate{Disrupted: true}},
		"does not fit its node":       {ended("NodeAffinity", false), fate{Disrupted: true}},
		"no room on its node":         {ended("OutOfmemory", false), fate{Disrupted: true}},
		// A reason of a pod that still runs is no end.
		"runs, with a reason": {func(p *pods.Pod) { p.Reason = "Terminated" }, fate{Running: true}},
	} {
		p := running("p1", "10.0.0.1", nil)
		c.change(p)
		is := podFacts(p)
		if got := (fate{is.Running, is.Failed, is.CrashLoop, is.Disrupted}); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// What a pod has handled is counted by one process. Only the container in which it runs tells that it restarted.
func TestContainerThatCounts(t *testing.T) {
	t.Parallel()
	user, other := pods.Container{Name: "user-container", ID: "user"}, pods.Container{Name: "other", ID: "other"}
	queue := pods.Container{Name: queueProxy, ID: "queue"}
	for name, c := range map[string]struct {
		runtime, proxy, sidecar string
		containers              []pods.Container
		want                    string
	}{
		"the application counts":       {"pekko", "", "", []pods.Container{queue, user}, "user"},
		"one of two containers counts": {"pekko", "", "", []pods.Container{user, queue, other}, ""},
		"another sidecar may count":    {"akka", "akka-proxy", "", []pods.Container{user, queue}, ""},
		"the sidecar counts":           {"sidecar", "", "sidecar", []pods.Container{user, queue}, "sidecar"},
		"it is in queue-proxy":         {"sidecar", "queue-proxy", "queue", []pods.Container{user, other, queue}, "queue"},
		"it is missing":                {"sidecar", "", "", []pods.Container{user, queue}, ""},
	} {
		p := running("p1", "10.0.0.1", map[string]string{v1alpha1.AnnotationRuntime: c.runtime, v1alpha1.AnnotationMetricsPort: "9100"})
		if c.proxy != "" {
			p.Annotations[v1alpha1.AnnotationProxy] = c.proxy
		}
		if c.runtime == string(v1alpha1.RuntimeSidecar) {
			delete(p.Annotations, v1alpha1.AnnotationMetricsPort)
			p.Annotations[v1alpha1.AnnotationKey] = "header:X-User"
		}
		p.Containers, p.SidecarID = c.containers, c.sidecar
		got := targetsOf([]*pods.Pod{p})
		if len(got) != 2 || got[0].Container != "queue" || got[1].Container != c.want {
			t.Errorf("%s: read %+v, want a container %q", name, got, c.want)
		}
	}
}
