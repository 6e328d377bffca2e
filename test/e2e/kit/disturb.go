package kit

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Delete deletes one of the controller's pods: with the grace that it has by itself, or with none.
func (k *Kit) Delete(ctx context.Context, pod string, grace *int64) error {
	err := k.Kube.CoreV1().Pods(Namespace).Delete(ctx, pod, metav1.DeleteOptions{GracePeriodSeconds: grace})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting pod %s: %w", pod, err)
	}
	return nil
}

// Crash ends one of the controller's pods as a node that dies does. Deleting it is not enough: the kubelet leaves
// two seconds even to a pod without grace, in which it would give back its leases.
func (k *Kit) Crash(ctx context.Context, pod string) error {
	if err := k.Signal(ctx, "KILL", pod); err != nil {
		return err
	}
	now := int64(0)
	return k.Delete(ctx, pod, &now)
}

// Signal sends KILL, STOP or CONT to all processes of one of the controller's pods.
func (k *Kit) Signal(ctx context.Context, signal, pod string) error {
	p, err := k.Kube.CoreV1().Pods(Namespace).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("sending %s to pod %s: %w", signal, pod, err)
	}
	return k.cluster(ctx, "signal", signal, string(p.UID))
}

// RestartDaemon ends a program of the own cluster, and returns when it runs again.
func (k *Kit) RestartDaemon(ctx context.Context, name string) error {
	return k.cluster(ctx, "restart", name)
}

// Compact lets the own cluster's etcd forget all former states.
func (k *Kit) Compact(ctx context.Context) error { return k.cluster(ctx, "compact") }

func (k *Kit) cluster(ctx context.Context, args ...string) error {
	if !k.Own() {
		return fmt.Errorf("%s: only a cluster made by test/cluster can do that", args[0])
	}
	_, err := run(ctx, k.root, nil, k.program, args...)
	return err
}

// Pods are those of the controller.
func (k *Kit) Pods(ctx context.Context) ([]corev1.Pod, error) {
	return k.pods(ctx, Namespace, controllers)
}

// Leaders are the holders of the controller's leases, by the name of the lease: the names of pods, empty where
// a lease was given back.
func (k *Kit) Leaders(ctx context.Context) (map[string]string, error) {
	leases, err := k.Kube.CoordinationV1().Leases(Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("looking who leads: %w", err)
	}
	out := map[string]string{}
	for _, l := range leases.Items {
		if !strings.HasPrefix(l.Name, "controller.") {
			continue // the webhook's
		}
		out[l.Name] = ""
		if l.Spec.HolderIdentity != nil {
			// A process appends something of its own to the name of its pod.
			out[l.Name], _, _ = strings.Cut(*l.Spec.HolderIdentity, "_")
		}
	}
	return out, nil
}
