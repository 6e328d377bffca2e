// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"knative.dev/pkg/apis"
	"knative.dev/pkg/kmeta"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
)

// App returns the sample application as a Knative Service. An empty version means the one it was built with.
func App(namespace, name, image, version string) *servingv1.Service {
	s := &servingv1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	SetVersion(s, version)
	// It is also the pods' grace period. Kubernetes waits for half of that before it checks again whether a namespace is
	// empty, which takes long with Serving's default of five minutes.
	timeout := int64(10)
	s.Spec.Template.Spec.TimeoutSeconds = &timeout
	c := &s.Spec.Template.Spec.Containers[0]
	c.Image, c.SecurityContext = image, restricted()
	return s
}

// SetVersion changes the application's version, so that a new Revision is created.
func SetVersion(s *servingv1.Service, version string) {
	spec := &s.Spec.Template.Spec
	if len(spec.Containers) == 0 {
		spec.Containers = []corev1.Container{{}}
	}
	spec.Containers[0].Env = nil
	if version != "" {
		spec.Containers[0].Env = []corev1.EnvVar{{Name: "VERSION", Value: version}}
	}
}

// SetProtocol names the application's port; Serving requires "h2c" for HTTP/2.
func SetProtocol(s *servingv1.Service, protocol string) {
	s.Spec.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: protocol, ContainerPort: 8080}}
}

// Share is a Revision's share of the traffic; an empty name means the latest Ready Revision.
type Share struct {
	Revision string
	Percent  int64
}

// SetTraffic sets the traffic split.
func SetTraffic(s *servingv1.Service, shares ...Share) {
	s.Spec.Traffic = nil
	for _, share := range shares {
		latest := share.Revision == ""
		s.Spec.Traffic = append(s.Spec.Traffic, servingv1.TrafficTarget{
			RevisionName: share.Revision, LatestRevision: &latest, Percent: &share.Percent,
		})
	}
}

// Create creates a Knative Service. It retries while Serving's webhook is not available.
func (k Services) Create(ctx context.Context, s *servingv1.Service) error {
	return Wait(ctx, webhookPatience, "the creation of Knative Service "+s.Name, func(ctx context.Context) error {
		_, err := k.Serving.ServingV1().Services(s.Namespace).Create(ctx, s, metav1.CreateOptions{})
		if apierrors.IsInternalError(err) {
			return NotYet("%v", err)
		}
		return err
	})
}

// Update updates a Knative Service in one write, as a user does.
func (k Services) Update(ctx context.Context, namespace, name string, change func(*servingv1.Service)) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		s, err := k.Serving.ServingV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(s)
		_, err = k.Serving.ServingV1().Services(namespace).Update(ctx, s, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("changing Knative Service %s/%s: %w", namespace, name, err)
	}
	return nil
}

// Wait waits until the Service is Ready for its latest generation. After a change of the template, the given
// Revision must be the latest Ready one; an empty name skips that check.
func (k Services) Wait(ctx context.Context, namespace, name, revision string) (*servingv1.Service, error) {
	var s *servingv1.Service
	err := Wait(ctx, patience, "Knative Service "+namespace+"/"+name, func(ctx context.Context) error {
		var err error
		if s, err = k.Serving.ServingV1().Services(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		if !s.IsReady() || s.Status.ObservedGeneration != s.Generation {
			return NotYet("not Ready: %s", because(s.Status.GetCondition(apis.ConditionReady)))
		}
		if revision != "" && s.Status.LatestReadyRevisionName != revision {
			return NotYet("the latest Ready Revision is %s, want %s", s.Status.LatestReadyRevisionName, revision)
		}
		return nil
	})
	return s, err
}

// Delete deletes a Knative Service and waits until it is gone.
func (k Services) Delete(ctx context.Context, namespace, name string) error {
	policy := metav1.DeletePropagationBackground
	err := k.Serving.ServingV1().Services(namespace).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &policy})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting Knative Service %s/%s: %w", namespace, name, err)
	}
	return Wait(ctx, patience, "the deletion of Knative Service "+name, func(ctx context.Context) error {
		_, err := k.Serving.ServingV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return NotYet("it still exists")
	})
}

// RevisionName returns the name that Serving gives the nth Revision of a Service.
func RevisionName(service string, n int) string {
	return kmeta.ChildName(service, fmt.Sprintf("-%05d", n))
}

func because(c *apis.Condition) string {
	if c == nil {
		return "no condition yet"
	}
	return fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)
}

// PatchTraffic writes only the traffic of a Knative Service, and waits until it is in effect.
func (k Services) PatchTraffic(ctx context.Context, namespace, name, traffic string) error {
	patch := []byte(`{"spec":{"traffic":` + traffic + `}}`)
	if _, err := k.Serving.ServingV1().Services(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("setting the traffic of Knative Service %s/%s: %w", namespace, name, err)
	}
	_, err := k.Wait(ctx, namespace, name, "")
	return err
}
