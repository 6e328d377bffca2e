// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

func (k Serverless) manifests() string { return k.Path("config", "optional", "serverless") }

// Install builds the core and the doorbell from this checkout, applies config/optional/serverless, and waits until both
// run.
func (k Serverless) Install(ctx context.Context) error {
	if err := k.apply(ctx, k.manifests()); err != nil {
		return fmt.Errorf("installing the serverless mode: %w", err)
	}
	_, err := k.Services.Wait(ctx, Namespace, "core", "")
	return errors.Join(err, k.WaitDoorbell(ctx))
}

// Uninstall removes the serverless mode.
func (k Serverless) Uninstall(ctx context.Context) error {
	if err := k.unapply(ctx, k.manifests()); err != nil {
		return fmt.Errorf("uninstalling the serverless mode: %w", err)
	}
	return nil
}

// WaitDoorbell waits until the doorbell runs.
func (k Serverless) WaitDoorbell(ctx context.Context) error {
	return Wait(ctx, patience, "the doorbell", func(ctx context.Context) error {
		d, err := k.Kube.AppsV1().Deployments(Namespace).Get(ctx, "doorbell", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return k.Workloads.rolledOut(ctx, d, doorbells)
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

// WaitAsleep waits until the controller has scaled itself to zero, and Serving the core.
func (k Serverless) WaitAsleep(ctx context.Context) error {
	return Wait(ctx, toZero, "controller and core to sleep", func(ctx context.Context) error {
		d, err := k.Controller.Deployment(ctx)
		if err != nil {
			return err
		}
		pods, err := k.Cores(ctx)
		if err != nil {
			return err
		}
		if *d.Spec.Replicas > 0 || d.Status.Replicas > 0 || len(pods) > 0 {
			return NotYet("the controller has %d replicas (%v), the core %d", d.Status.Replicas, d.Annotations, len(pods))
		}
		return nil
	})
}

// Log returns the last lines of the logs of doorbell and core.
func (k Serverless) Log(ctx context.Context, lines int64) string {
	return k.Workloads.Logs(ctx, Namespace, doorbells, lines) + k.Workloads.Logs(ctx, Namespace, cores, lines)
}
