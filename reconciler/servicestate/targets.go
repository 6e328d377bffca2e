// SPDX-License-Identifier: Apache-2.0

package servicestate

import (
	"context"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
	"github.com/knative-cdevents/knative-cdevents/reconciler/pods"
)

// The metrics endpoint of the container that Knative adds to each pod.
const (
	queueProxy = "queue-proxy"
	entryPort  = 9091
	entryPath  = "/metrics"
)

// ownershipLimit limits one check of a pod's owners.
const ownershipLimit = 5 * time.Second

// ownership is the result of checking a pod's owners.
type ownership struct {
	proven bool
	// claim is what was checked.
	claim claim
}

// claim is the owner that a pod's labels name. Anyone who may label pods can change the claim of a
// verified pod.
type claim struct {
	service, revision       string
	serviceUID, revisionUID types.UID
}

func claimOf(pod *pods.Pod) claim {
	return claim{service: pod.Service, revision: pod.Revision, serviceUID: pod.ServiceUID, revisionUID: pod.RevisionUID}
}

// proves reports whether the check covers the pod's present claim.
func (o ownership) proves(pod *pods.Pod) bool { return o.proven && o.claim == claimOf(pod) }

// proven returns the pods that are verified to belong to the Revision in their labels.
func (v *View) proven(ctx context.Context, claimed []*pods.Pod) []*pods.Pod {
	var out []*pods.Pod
	for _, pod := range claimed {
		v.mu.Lock()
		known, asked := v.owned[pod.UID]
		v.mu.Unlock()
		proven := known.proves(pod)
		if !proven {
			limited, cancel := context.WithTimeout(ctx, ownershipLimit)
			err := v.pods.Owned(limited, pod)
			cancel()
			proven = err == nil
			if !proven && (!asked || known.proven) {
				v.logger.Warnw("Not measuring a pod: failed to verify that it belongs to the Revision in its labels", "pod",
					pod.Namespace+"/"+pod.Name, "error", err)
			}
			v.mu.Lock()
			v.owned[pod.UID] = ownership{proven: proven, claim: claimOf(pod)}
			v.mu.Unlock()
		}
		if proven {
			out = append(out, pod)
		}
	}
	return out
}

// Forget removes deleted pods. It scans all pods.
func (v *View) Forget() {
	v.mu.Lock()
	known := len(v.owned)
	v.mu.Unlock()
	if known == 0 {
		return
	}
	alive := map[types.UID]bool{}
	for _, service := range v.Services() {
		for _, pod := range v.pods.Of(service) {
			alive[pod.UID] = true
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for uid := range v.owned {
		if !alive[uid] {
			delete(v.owned, uid)
		}
	}
}

// Targets implements scrape.Discovery. It returns queue-proxy of every pod, and the application
// too if its template declares a metrics port.
func (v *View) Targets(ctx context.Context, service types.NamespacedName) []scrape.Target {
	return targetsOf(v.proven(ctx, v.pods.Of(service)))
}

// Dying implements scrape.Discovery.
func (v *View) Dying(ctx context.Context, service types.NamespacedName) []scrape.Target {
	return targetsOf(v.proven(ctx, v.pods.Dying(service)))
}

// HasDying implements scrape.Watched.
func (v *View) HasDying(service types.NamespacedName) bool { return len(v.pods.Dying(service)) > 0 }

func targetsOf(members []*pods.Pod) []scrape.Target {
	var out []scrape.Target
	for _, pod := range members {
		ip, err := netip.ParseAddr(pod.IP)
		if err != nil || pod.HostNetwork || pod.Phase != corev1.PodRunning {
			continue // the pod has no IP address of its own, or does not run
		}
		at := scrape.Target{
			Pod: pod.UID, Container: entryContainer(pod), Entry: true, Path: entryPath,
			Address: netip.AddrPortFrom(ip, entryPort), Dying: !pod.Deleting.IsZero(),
		}
		out = append(out, at)
		// With a declaration that is not valid, only queue-proxy is scraped.
		if d, declared, err := pod.Declared(); declared && err == nil && d.MetricsPort > 0 {
			at.Container, at.Entry, at.Path, at.Runtime = handlingContainer(pod, d), false, d.MetricsPath, string(d.Runtime)
			at.Address = netip.AddrPortFrom(ip, uint16(d.MetricsPort)) //nolint:gosec // Declared checks the range
			out = append(out, at)
		}
	}
	return out
}

// entryContainer returns the ID of queue-proxy's container.
func entryContainer(pod *pods.Pod) string {
	for _, c := range pod.Containers {
		if c.Name == queueProxy {
			return c.ID
		}
	}
	return ""
}

// handlingContainer returns the ID of the container that counts what the pod handles; empty if that is not known. The
// project's sidecar counts by itself, in a container of its own or in queue-proxy, and goes on when the user's
// container restarts. With another sidecar, or with several containers of the user, any of them may serve the port.
func handlingContainer(pod *pods.Pod, d v1alpha1.Stateful) string {
	if d.Runtime == v1alpha1.RuntimeSidecar {
		return pod.SidecarID
	}
	id, users := "", 0
	for _, c := range pod.Containers {
		if c.Name != queueProxy {
			id, users = c.ID, users+1
		}
	}
	if users != 1 || d.Proxy != "" {
		return ""
	}
	return id
}
