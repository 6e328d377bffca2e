// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Delete deletes a pod of the controller, with its own grace period or with the given one.
func (k Controller) Delete(ctx context.Context, pod string, grace *int64) error {
	err := k.Kube.CoreV1().Pods(Namespace).Delete(ctx, pod, metav1.DeleteOptions{GracePeriodSeconds: grace})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting pod %s: %w", pod, err)
	}
	return nil
}

// Crash ends a pod of the controller as a failing node does. Deletion is not enough: even without a grace period, the
// kubelet allows two seconds, in which the pod would release its leases.
func (k Controller) Crash(ctx context.Context, pod string) error {
	if err := k.Signal(ctx, "KILL", pod); err != nil {
		return err
	}
	now := int64(0)
	return k.Delete(ctx, pod, &now)
}

// Signal sends KILL, STOP or CONT to all processes of a pod of the controller.
func (k Controller) Signal(ctx context.Context, signal, pod string) error {
	p, err := k.Kube.CoreV1().Pods(Namespace).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("sending %s to pod %s: %w", signal, pod, err)
	}
	return k.Workloads.Signal(ctx, signal, p)
}

// Signal sends KILL, STOP or CONT to all processes of any pod.
func (k Workloads) Signal(ctx context.Context, signal string, p *corev1.Pod) error {
	return k.cluster(ctx, "signal", signal, string(p.UID))
}

// SignalContainer sends KILL, STOP or CONT to the processes of one container of a pod, which may be a sidecar.
func (k Workloads) SignalContainer(ctx context.Context, signal string, p *corev1.Pod, container string) error {
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if s.Name == container {
			_, id, _ := strings.Cut(s.ContainerID, "://")
			return k.cluster(ctx, "signal", signal, string(p.UID)+"/"+id)
		}
	}
	return fmt.Errorf("sending %s to pod %s: it has no container %s", signal, p.Name, container)
}

// Crash ends any pod as a failing node does: no process of it gets time to end.
func (k Workloads) Crash(ctx context.Context, p *corev1.Pod) error {
	if err := k.Signal(ctx, "KILL", p); err != nil {
		return err
	}
	now := int64(0)
	err := k.Kube.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting pod %s: %w", p.Name, err)
	}
	return nil
}

// Cordon says whether new pods may be scheduled; those that run stay.
func (k Workloads) Cordon(ctx context.Context, closed bool) error {
	nodes, err := k.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the nodes: %w", err)
	}
	patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, closed)
	for _, n := range nodes.Items {
		_, err := k.Kube.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return fmt.Errorf("cordoning node %s: %w", n.Name, err)
		}
	}
	return nil
}

// CutOff cuts a pod off from all other pods and Services, except from the pods with the given addresses, as if its node
// were. The machine still reaches it. Only one pod at a time can be cut off.
func (k Workloads) CutOff(ctx context.Context, p *corev1.Pod, except ...string) error {
	return k.cluster(ctx, append([]string{"network", "cut", p.Status.PodIP}, except...)...)
}

// Mend connects the pod again that was cut off.
func (k Workloads) Mend(ctx context.Context) error { return k.cluster(ctx, "network", "mend") }

// RestartDaemon restarts a program of the cluster made by test/cluster, and returns when it runs again.
func (k *Kit) RestartDaemon(ctx context.Context, name string) error {
	return k.cluster(ctx, "restart", name)
}

// Compact compacts etcd in the cluster made by test/cluster, so that watches cannot resume.
func (k *Kit) Compact(ctx context.Context) error { return k.cluster(ctx, "compact") }

func (k *Kit) cluster(ctx context.Context, args ...string) error {
	if !k.Own() {
		return fmt.Errorf("%s: only a cluster made by test/cluster can do that", args[0])
	}
	_, err := run(ctx, k.root, nil, k.program, args...)
	return err
}

// Pods returns the controller's pods.
func (k Controller) Pods(ctx context.Context) ([]corev1.Pod, error) {
	return k.Workloads.pods(ctx, Namespace, controllers)
}

// Leaders returns the holders of the controller's leases by lease: pod names, empty for a lease that has been
// released.
func (k Controller) Leaders(ctx context.Context) (map[string]string, error) {
	leases, err := k.Kube.CoordinationV1().Leases(Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the controller's leases: %w", err)
	}
	out := map[string]string{}
	for _, l := range leases.Items {
		if !strings.HasPrefix(l.Name, "controller.") {
			continue // a lease of the webhook
		}
		out[l.Name] = ""
		if l.Spec.HolderIdentity != nil {
			// A holder's identity is the pod's name and a suffix.
			out[l.Name], _, _ = strings.Cut(*l.Spec.HolderIdentity, "_")
		}
	}
	return out, nil
}
