// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// BaselineClient is the part of the API that baselines need.
type BaselineClient interface {
	Create(ctx context.Context, b *v1alpha1.CDEventBaseline, opts metav1.CreateOptions) (*v1alpha1.CDEventBaseline, error)
	Update(ctx context.Context, b *v1alpha1.CDEventBaseline, opts metav1.UpdateOptions) (*v1alpha1.CDEventBaseline, error)
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*v1alpha1.CDEventBaseline, error)
}

// Baselines stores since when objects of each kind are announced, in CDEventBaselines.
type Baselines struct{ Client BaselineClient }

// Since returns since when objects of a kind are announced. Older objects were there before the controller. The
// time is taken once, when a controller first starts, from the creationTimestamp of the CDEventBaseline: the API
// server sets it, as it does for the objects, so no other clock is compared. It is then kept in the spec, which
// a restored backup does not change. The kind need not exist yet.
func (b Baselines) Since(ctx context.Context, resource string) (time.Time, error) {
	got, err := b.Client.Get(ctx, resource, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		got, err = b.Client.Create(ctx, &v1alpha1.CDEventBaseline{ObjectMeta: metav1.ObjectMeta{Name: resource}},
			metav1.CreateOptions{})
	}
	if apierrors.IsAlreadyExists(err) {
		got, err = b.Client.Get(ctx, resource, metav1.GetOptions{})
	}
	if err == nil && got.Spec.Since == nil {
		got = got.DeepCopy()
		got.Spec.Since = got.CreationTimestamp.DeepCopy()
		got, err = b.Client.Update(ctx, got, metav1.UpdateOptions{})
	}
	if err != nil {
		return time.Time{}, fmt.Errorf(
			"reading or writing CDEventBaseline %s, which records since when events about %s are sent: %w",
			resource,
			resource,
			err,
		)
	}
	return got.Spec.Since.Time, nil
}

// SetCondition sets a condition on the CDEventBaseline of a kind, which must exist.
func (b Baselines) SetCondition(ctx context.Context, resource string, c metav1.Condition) error {
	got, err := b.Client.Get(ctx, resource, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading CDEventBaseline %s: %w", resource, err)
	}
	got = got.DeepCopy()
	if !meta.SetStatusCondition(&got.Status.Conditions, c) {
		return nil
	}
	if _, err := b.Client.Update(ctx, got, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("writing condition %s of CDEventBaseline %s: %w", c.Type, resource, err)
	}
	return nil
}
