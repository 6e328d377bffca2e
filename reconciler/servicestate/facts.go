// SPDX-License-Identifier: Apache-2.0

package servicestate

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/reconciler/pods"
)

// Facts returns the facts of a Service for attribution. It includes only pods that Targets
// has verified.
func (v *View) Facts(service types.NamespacedName) attribution.Facts {
	_, snapshot, exists := v.services.Snapshot(service)
	if !exists {
		return attribution.Facts{}
	}
	var f attribution.Facts
	timeouts := map[types.UID]time.Duration{}
	members, claimed := v.members(service)
	f.Claimed = claimed
	// If a request to any Revision makes several calls, requests and calls cannot be compared.
	f.OneCall = len(members) > 0
	for _, pod := range members {
		f.Pods = append(f.Pods, podFacts(pod))
		d, _, err := pod.Declared()
		f.OneCall = f.OneCall && err == nil && d.OneCall
		timeouts[pod.RevisionUID] = pod.Grace
	}
	parts := v.cluster(service)
	for name, r := range snapshot.Revisions {
		// The Configuration of a Service has the Service's name.
		out := attribution.Revision{Revision: r, Configuration: service.Name, Timeout: timeouts[r.UID]}
		if route := snapshot.Route; route != nil && route.Effective {
			share := float64(route.Traffic.Percent(name)) / 100
			out.Required = &share
		}
		if part, ok := parts[name]; ok {
			members := float64(part.Members)
			out.ClusterMembers = &members
			if part.Shards != nil {
				shards := float64(*part.Shards)
				out.ClusterShards = &shards
			}
		}
		f.Revisions = append(f.Revisions, out)
	}
	return f
}

// members returns the pods that are verified to belong to a Service, and the UIDs of the
// others.
func (v *View) members(service types.NamespacedName) (members []*pods.Pod, others []types.UID) {
	claimed := v.pods.Of(service)
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, pod := range claimed {
		if v.owned[pod.UID].proves(pod) {
			members = append(members, pod)
		} else {
			others = append(others, pod.UID)
		}
	}
	return members, others
}

// disrupted reports whether what ends a pod lies outside of it. The kubelet evicts a pod for the pressure on its node
// with the condition DisruptionTarget, and one that has exceeded a storage limit of its own without it, which is the
// pod's fault.
func disrupted(pod *pods.Pod) bool { return pod.Disrupted || pod.Over() && byNode(pod.Reason) }

// byNode reports whether the node is the cause of a failed pod: it shuts down, lacks resources, or needs
// them for a critical pod.
func byNode(reason string) bool {
	switch reason {
	case "Terminated", "Shutdown", "NodeShutdown", "Preempting", "NodeAffinity", "UnexpectedAdmissionError":
		return true
	}
	return strings.HasPrefix(reason, "OutOf")
}

func podFacts(pod *pods.Pod) attribution.Pod {
	out := attribution.Pod{
		UID:        pod.UID,
		Revision:   pod.RevisionUID,
		Ready:      pod.Ready,
		ReadySince: pod.ReadySince,
		Began:      pod.Began,
		Disrupted:  disrupted(pod),
		Running:    pod.Phase == corev1.PodRunning && pod.Deleting.IsZero(),
	}
	// A deleted pod, such as one that is scaled in, becomes Failed if its containers exit with
	// an error on SIGTERM (since Kubernetes 1.27). That is not a failure.
	out.Failed = pod.Phase == corev1.PodFailed && pod.Deleting.IsZero() && !out.Disrupted
	for _, c := range pod.Containers {
		if c.Name == queueProxy {
			continue
		}
		if c.Started.After(out.Started) {
			out.Started = c.Started
		}
		out.Restarts += int(c.Restarts)
		out.OOMKilled = out.OOMKilled || c.OOMKilled()
		out.CrashLoop = out.CrashLoop || out.Running && !out.Disrupted && c.CrashLoop
	}
	return out
}
