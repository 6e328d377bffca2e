// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Serverless is the optional part of the installation that observes and sends while the controller sleeps.
type Serverless struct{ *Kit }

// Selectors of its pods. Those of the core are Serving's.
const (
	doorbells = "app.kubernetes.io/name=" + Namespace + ",app.kubernetes.io/component=doorbell"
	cores     = "app.kubernetes.io/name=" + Namespace + ",app.kubernetes.io/component=core"
)

// toZero bounds the time until Serving has scaled the core to zero: its stable window, and its grace periods.
const toZero = 5 * time.Minute

// Form is a form of the serverless mode, as SERVERLESS of the Makefile names it.
type Form string

// The forms.
const (
	AsService    Form = "knative"
	AsDeployment Form = "deployment"
	ByEventing   Form = "eventing"
)

// Install runs "make install-serverless" for a form, and waits until its parts run.
func (k Serverless) Install(ctx context.Context, form Form) error {
	if err := k.make(ctx, "install-serverless", form); err != nil {
		return fmt.Errorf("installing the serverless mode: %w", err)
	}
	switch form {
	case AsDeployment:
		return errors.Join(k.waitDeployment(ctx, "core", cores), k.WaitDoorbell(ctx))
	case ByEventing:
		_, err := k.Services.Wait(ctx, Namespace, "core", "")
		for _, part := range []schema.GroupVersionResource{
			{Group: "eventing.knative.dev", Version: "v1", Resource: "brokers"},
			{Group: "eventing.knative.dev", Version: "v1", Resource: "triggers"},
			{Group: "sources.knative.dev", Version: "v1", Resource: "apiserversources"},
			{Group: "sources.knative.dev", Version: "v1", Resource: "pingsources"},
		} {
			err = errors.Join(err, k.WaitReady(ctx, part, Namespace, "rings"))
		}
		return err
	}
	_, err := k.Services.Wait(ctx, Namespace, "core", "")
	return errors.Join(err, k.WaitDoorbell(ctx))
}

// Uninstall runs "make uninstall-serverless" for a form.
func (k Serverless) Uninstall(ctx context.Context, form Form) error {
	if err := k.make(ctx, "uninstall-serverless", form); err != nil {
		return fmt.Errorf("uninstalling the serverless mode: %w", err)
	}
	return nil
}

// make runs a target of the Makefile for a form. The cluster made by test/cluster has a registry for the images.
func (k Serverless) make(ctx context.Context, target string, form Form) error {
	env, err := k.kubectlPath(ctx)
	if err != nil {
		return err
	}
	if k.Own() {
		registry, err := k.Address(ctx, "registry")
		if err != nil {
			return err
		}
		base, err := k.Address(ctx, "base-image")
		if err != nil {
			return err
		}
		env = append(env, "KO_DOCKER_REPO="+strings.TrimPrefix(registry, "http://")+"/serverless", "KO_DEFAULTBASEIMAGE="+base)
	}
	_, err = run(ctx, k.root, env, "make", "-s", target, "SERVERLESS="+string(form))
	return err
}

// WaitDoorbell waits until the doorbell runs.
func (k Serverless) WaitDoorbell(ctx context.Context) error {
	return k.waitDeployment(ctx, "doorbell", doorbells)
}

func (k Serverless) waitDeployment(ctx context.Context, name, selector string) error {
	return Wait(ctx, patience, "Deployment "+name, func(ctx context.Context) error {
		d, err := k.Kube.AppsV1().Deployments(Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return k.Workloads.rolledOut(ctx, d, selector)
	})
}

// Doorbells returns the pods of the doorbell, and Cores those of the core.
func (k Serverless) Doorbells(ctx context.Context) ([]corev1.Pod, error) {
	return k.Workloads.pods(ctx, Namespace, doorbells)
}

// Cores returns the pods of the core.
func (k Serverless) Cores(ctx context.Context) ([]corev1.Pod, error) {
	return k.Workloads.pods(ctx, Namespace, cores)
}

// Swept succeeds once a core that runs has swept.
func (k Serverless) Swept(ctx context.Context) error {
	pods, err := k.Cores(ctx)
	if err != nil {
		return err
	}
	for i := range pods {
		families, err := k.Workloads.families(ctx, &pods[i], "8080", "metrics")
		if err != nil {
			return NotYet("a core tells no metrics: %v", err)
		}
		for labels, n := range values(families["cdevents_core_rings_total"]) {
			if labels["kind"] == "sweep" && labels["result"] == "answered" && n > 0 {
				return nil
			}
		}
	}
	return NotYet("%d cores run, and none has swept", len(pods))
}

// WaitAsleep waits until the controller has scaled itself to zero, and Serving the core.
func (k Serverless) WaitAsleep(ctx context.Context) error {
	if err := k.WaitControllerAsleep(ctx); err != nil {
		return err
	}
	return Wait(ctx, toZero, "the core to be scaled to zero", func(ctx context.Context) error {
		pods, err := k.Cores(ctx)
		if err == nil && len(pods) > 0 {
			return NotYet("it has %d pods", len(pods))
		}
		return err
	})
}

// WaitControllerAsleep waits until the controller has scaled itself to zero, and its pods have ended.
func (k Serverless) WaitControllerAsleep(ctx context.Context) error {
	return Wait(ctx, toZero, "the controller to sleep", func(ctx context.Context) error {
		d, err := k.Controller.Deployment(ctx)
		if err != nil {
			return err
		}
		pods, err := k.Controller.Pods(ctx)
		if err == nil && (*d.Spec.Replicas > 0 || len(pods) > 0) {
			return NotYet("it has %d replicas and %d pods (%v)", *d.Spec.Replicas, len(pods), d.Annotations)
		}
		return err
	})
}

// Log returns the last lines of the logs of doorbell and core.
func (k Serverless) Log(ctx context.Context, lines int64) string {
	return k.Workloads.Logs(ctx, Namespace, doorbells, lines) + k.Workloads.Logs(ctx, Namespace, cores, lines)
}
