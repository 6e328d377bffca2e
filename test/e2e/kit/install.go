// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// patience bounds the start of a pod, including the pull of its image.
const patience = 2 * time.Minute

// Install builds the controller from this checkout, applies config/ like "ko apply -f config/", and waits until the
// controller is available.
func (k Controller) Install(ctx context.Context) error {
	if err := k.apply(ctx, k.Path("config")); err != nil {
		return fmt.Errorf("installing the controller: %w", err)
	}
	if err := k.WaitWebhook(ctx); err != nil {
		return err
	}
	return k.WaitAvailable(ctx)
}

// apply builds the images of manifests from this checkout, and applies them.
func (k *Kit) apply(ctx context.Context, manifests string) error {
	var err error
	if k.Own() {
		_, err = run(ctx, k.root, nil, k.program, "apply", "-C", k.root, "-f", manifests)
	} else {
		_, err = run(ctx, k.root, nil, k.tool(), "ko", "apply", "--base-import-paths", "-f", manifests)
	}
	return err
}

// unapply removes everything in manifests, like "ko delete -f".
func (k *Kit) unapply(ctx context.Context, manifests string) error {
	env, err := k.kubectlPath(ctx)
	if err != nil {
		return err
	}
	// ko resolves no images for a deletion, but requires a repository.
	env = append(env, "KO_DOCKER_REPO=ko.local")
	_, err = run(ctx, k.root, env, k.tool(), "ko", "delete", "--ignore-not-found", "-f", manifests)
	return err
}

// WaitWebhook waits until the API server reaches the webhook. A certificate and a Ready pod are not enough; only a
// request shows it.
func (k Controller) WaitWebhook(ctx context.Context) error {
	source := &v1alpha1.CDEventSource{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.SourceKind.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "question"},
	}
	return Wait(ctx, patience, "the webhook", func(ctx context.Context) error {
		// This source has no sink and must be rejected.
		_, err := k.Ours.CDEventSources(Namespace).Create(ctx, source, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "neither ref nor uri") {
			return NotYet("the answer for a source without a sink is: %v; %s", err, k.Workloads.whyPods(ctx, Namespace, "app.kubernetes.io/component=webhook"))
		}
		patch := []byte(`{"data":{"no-setting":"true"}}`)
		_, err = k.Kube.CoreV1().ConfigMaps(Namespace).
			Patch(ctx, "config-cdevents", types.MergePatchType, patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "no-setting") {
			return NotYet("the answer for an unknown setting is: %v", err)
		}
		return nil
	})
}

// Uninstall removes everything in config/, like "ko delete -f config/".
func (k Controller) Uninstall(ctx context.Context) error {
	if err := k.unapply(ctx, k.Path("config")); err != nil {
		return fmt.Errorf("uninstalling the controller: %w", err)
	}
	return Wait(ctx, patience, "the deletion of namespace "+Namespace, func(ctx context.Context) error {
		_, err := k.Kube.CoreV1().Namespaces().Get(ctx, Namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return NotYet("it still exists")
	})
}

// Deployment returns the Deployment of the controller.
func (k Controller) Deployment(ctx context.Context) (*appsv1.Deployment, error) {
	d, err := k.Kube.AppsV1().Deployments(Namespace).Get(ctx, controller, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the controller's Deployment: %w", err)
	}
	return d, nil
}

// controller is the name of its Deployment.
const controller = "controller"

// controllers selects the controller's pods.
const controllers = "app.kubernetes.io/name=" + Namespace + ",app.kubernetes.io/component=controller"

// ServiceAccount returns the user name of the controller.
func (k Controller) ServiceAccount(ctx context.Context) (string, error) {
	d, err := k.Deployment(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("system:serviceaccount:%s:%s", Namespace, d.Spec.Template.Spec.ServiceAccountName), nil
}

// WaitAvailable waits until the controller's Deployment is rolled out, and no older pod is left.
func (k Controller) WaitAvailable(ctx context.Context) error {
	return Wait(ctx, patience, "the controller", func(ctx context.Context) error {
		d, err := k.Deployment(ctx)
		if err != nil {
			return err
		}
		return k.Workloads.rolledOut(ctx, d, controllers)
	})
}

// rolledOut returns NotYet until all replicas of a Deployment are available and up to date, and no older pod is left: it
// may still serve connections that it has. The selector is that of its pods.
func (k Workloads) rolledOut(ctx context.Context, d *appsv1.Deployment, selector string) error {
	want, s := *d.Spec.Replicas, d.Status
	if s.ObservedGeneration < d.Generation || s.UpdatedReplicas != want || s.AvailableReplicas != want || s.Replicas != want {
		return NotYet("%d of %d replicas available; %s", s.AvailableReplicas, want, k.whyPods(ctx, d.Namespace, selector))
	}
	pods, err := k.pods(ctx, d.Namespace, selector)
	if err != nil {
		return err
	}
	if n := int32(len(pods)); n != want { //nolint:gosec // a handful of pods
		return NotYet("%d pods, want %d", n, want)
	}
	return nil
}

// scale sets the number of replicas of a Deployment of the installation.
func (k *Kit) scale(ctx context.Context, deployment string, replicas int) error {
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	_, err := k.Kube.AppsV1().Deployments(Namespace).Patch(ctx, deployment, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("scaling Deployment %s to %d: %w", deployment, replicas, err)
	}
	return nil
}

// Scale sets the number of the controller's replicas, and waits until it is reached.
func (k Controller) Scale(ctx context.Context, replicas int) error {
	if err := k.scale(ctx, controller, replicas); err != nil {
		return err
	}
	return k.WaitAvailable(ctx)
}

// Restart deletes the controller's pods without a grace period, as if their node failed, and waits for new ones.
func (k Controller) Restart(ctx context.Context) error {
	now := int64(0)
	err := k.Kube.CoreV1().Pods(Namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{LabelSelector: controllers})
	if err != nil {
		return fmt.Errorf("deleting the controller's pods: %w", err)
	}
	return k.WaitAvailable(ctx)
}

// Log returns the last lines of the controller's logs.
func (k Controller) Log(ctx context.Context, lines int64) string {
	return k.Workloads.Logs(ctx, Namespace, controllers, lines)
}

// Logs returns the last lines of the logs of pods, for people. If a log cannot be read, it contains the error instead.
func (k Workloads) Logs(ctx context.Context, namespace, selector string, lines int64) string {
	pods, err := k.pods(ctx, namespace, selector)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, p := range pods {
		fmt.Fprintf(&b, "--- %s/%s (%s)\n", namespace, p.Name, p.Status.Phase)
		text, err := k.Kube.CoreV1().Pods(namespace).GetLogs(p.Name, &corev1.PodLogOptions{
			Container: p.Spec.Containers[0].Name, TailLines: &lines,
		}).DoRaw(ctx)
		if err != nil {
			fmt.Fprintln(&b, err)
		}
		b.Write(text)
	}
	return b.String()
}

func (k Workloads) pods(ctx context.Context, namespace, selector string) ([]corev1.Pod, error) {
	list, err := k.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of %s: %w", namespace, err)
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	}), nil
}

// whyPods describes the state of pods that are not Ready.
func (k Workloads) whyPods(ctx context.Context, namespace, selector string) string {
	pods, err := k.pods(ctx, namespace, selector)
	if err != nil {
		return err.Error()
	}
	var why []string
	for _, p := range pods {
		state := string(p.Status.Phase)
		for _, c := range p.Status.ContainerStatuses {
			switch {
			case c.State.Waiting != nil:
				state = c.State.Waiting.Reason + " " + c.State.Waiting.Message
			case c.State.Terminated != nil:
				state = c.State.Terminated.Reason + " " + c.State.Terminated.Message
			}
		}
		why = append(why, p.Name+": "+state)
	}
	return strings.Join(why, "; ")
}

// WaitLeader waits until a running pod holds every lease of the controller. A killed pod holds its leases until they
// expire.
func (k Controller) WaitLeader(ctx context.Context) error {
	return Wait(ctx, patience, "a leader", func(ctx context.Context) error {
		pods, err := k.Workloads.pods(ctx, Namespace, controllers)
		if err != nil {
			return err
		}
		leaders, err := k.Leaders(ctx)
		if err != nil {
			return err
		}
		for lease, holder := range leaders {
			if !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Name == holder }) {
				return NotYet("lease %s is held by %q", lease, holder)
			}
		}
		return nil
	})
}
