// SPDX-License-Identifier: Apache-2.0

package awake

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	"k8s.io/client-go/util/retry"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

const (
	// controller is the name of the Deployment.
	controller = "controller"
	// defaultRefresh is half of the shortest quiet time.
	defaultRefresh = 30 * time.Second
	// millis is RFC 3339 with milliseconds: two writes must not be the same, or the second one would be none.
	millis = "2006-01-02T15:04:05.000Z07:00"
)

// Deployment is that of the controller.
type Deployment struct {
	Client appsclient.DeploymentInterface
	Now    func() time.Time
	// Refresh is the age of the annotation at which it is written again although the controller is awake; 0 for 30 s. It
	// must be shorter than the quiet time.
	Refresh time.Duration
}

// Wake wakes the controller if there are reasons to.
func (d *Deployment) Wake(ctx context.Context, why []string) error {
	if len(why) == 0 {
		return nil
	}
	text := "awake: " + why[0]
	if more := len(why) - 1; more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		now, err := d.Client.Get(ctx, controller, metav1.GetOptions{})
		if err != nil {
			return err //nolint:wrapcheck // the conflict is looked for
		}
		if asleep(now) {
			replicas, err := strconv.ParseInt(now.Annotations[v1alpha1.AwakeReplicasAnnotation], 10, 32)
			if err != nil || replicas < 1 {
				replicas = 1
			}
			return d.write(ctx, now, int32(replicas), text)
		}
		if age := d.Now().Sub(written(now)); age >= 0 && age < cmp.Or(d.Refresh, defaultRefresh) {
			return nil
		}
		return d.write(ctx, now, *now.Spec.Replicas, text)
	})
	if apierrors.IsNotFound(err) {
		logging.FromContext(ctx).Warnw("There is something to measure, and no controller to wake; apply config/500-controller.yaml", "why", text)
		return nil
	}
	if err != nil {
		return fmt.Errorf("waking Deployment %s: %w", controller, err)
	}
	return nil
}

// sleep puts the controller to sleep, unless somebody has written the Deployment since it was read.
func (d *Deployment) sleep(ctx context.Context, read *appsv1.Deployment, why string) error {
	return d.write(ctx, read, 0, "asleep: "+why)
}

// write writes the replicas and the annotations, and nothing else: another version may know more fields.
func (d *Deployment) write(ctx context.Context, read *appsv1.Deployment, replicas int32, text string) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": read.ResourceVersion, "annotations": map[string]string{
			v1alpha1.AwakeAnnotation: text, v1alpha1.AwakeAtAnnotation: d.Now().UTC().Format(millis),
			v1alpha1.AwakeReplicasAnnotation: fmt.Sprint(cmp.Or(replicas, *read.Spec.Replicas)),
		}},
		"spec": map[string]any{"replicas": replicas},
	})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	_, err = d.Client.Patch(ctx, controller, types.MergePatchType, patch, metav1.PatchOptions{})
	return err //nolint:wrapcheck // the callers look for a conflict, and say what they do
}

func asleep(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 0 }

// written is when the annotation was written, zero if that is not known.
func written(d *appsv1.Deployment) time.Time {
	at, _ := time.Parse(time.RFC3339, d.Annotations[v1alpha1.AwakeAtAnnotation]) // zero after an error
	return at
}
