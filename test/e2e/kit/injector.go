// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Injector is the optional part of the installation that puts sidecars into pods.
type Injector struct{ *Kit }

// injector is the name of its Deployment, and of the container in it.
const injector = "sidecar-injector"

// injectors selects the injector's pods.
const injectors = "app.kubernetes.io/name=" + Namespace + ",app.kubernetes.io/component=" + injector

func (k Injector) manifests() string { return k.Path("config", "optional", "sidecar") }

// Install builds the injector and the sidecar from this checkout, applies config/optional/sidecar, and waits until pods
// with a sidecar can be made.
func (k Injector) Install(ctx context.Context) error {
	if err := k.apply(ctx, k.manifests()); err != nil {
		return fmt.Errorf("installing the injector: %w", err)
	}
	return k.WaitAvailable(ctx)
}

// Uninstall removes the injector. Pods that run keep their sidecars.
func (k Injector) Uninstall(ctx context.Context) error {
	if err := k.unapply(ctx, k.manifests()); err != nil {
		return fmt.Errorf("uninstalling the injector: %w", err)
	}
	return nil
}

// WaitAvailable waits until the injector's Deployment is rolled out, and its certificate is where the API server looks
// for it.
func (k Injector) WaitAvailable(ctx context.Context) error {
	return Wait(ctx, patience, "the injector", func(ctx context.Context) error {
		d, err := k.Kube.AppsV1().Deployments(Namespace).Get(ctx, injector, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := k.Workloads.rolledOut(ctx, d, injectors); err != nil {
			return err
		}
		hook, err := k.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations().
			Get(ctx, "pods.sidecar.knative-cdevents.dev", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(hook.Webhooks[0].ClientConfig.CABundle) == 0 {
			return NotYet("the webhook has no certificate yet")
		}
		return nil
	})
}

// Scale sets the number of replicas, and waits until it is reached.
func (k Injector) Scale(ctx context.Context, replicas int) error {
	if err := k.scale(ctx, injector, replicas); err != nil {
		return err
	}
	return k.WaitAvailable(ctx)
}

// Set sets an environment variable of the injector, and waits until it applies to new pods.
func (k Injector) Set(ctx context.Context, name, value string) error {
	patch := fmt.Appendf(nil, `{"spec":{"template":{"spec":{"containers":[{"name":%q,"env":[{"name":%q,"value":%q}]}]}}}}`, injector, name, value)
	_, err := k.Kube.AppsV1().Deployments(Namespace).
		Patch(ctx, injector, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("setting %s of the injector: %w", name, err)
	}
	return k.WaitAvailable(ctx)
}

// OptIn labels a namespace, so that its pods can have sidecars.
func (k Injector) OptIn(ctx context.Context, namespace string) error {
	patch := []byte(`{"metadata":{"labels":{"knative-cdevents.dev/sidecar":"enabled"}}}`)
	if _, err := k.Kube.CoreV1().Namespaces().Patch(ctx, namespace, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("opting namespace %s in: %w", namespace, err)
	}
	return nil
}
