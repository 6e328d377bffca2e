// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Baseline returns since when objects of a kind are announced. Older objects were there
// before the controller. The time is the creationTimestamp of a marker that is written once,
// when a controller first starts. The API server sets it, as it does for the objects, so no
// other clock is compared. The kind need not exist yet.
func (l *Ledger) Baseline(ctx context.Context, resource string) (time.Time, error) {
	marker := &v1alpha1.CDEventSubject{
		ObjectMeta: metav1.ObjectMeta{Name: "baseline-" + resource},
		Spec: v1alpha1.CDEventSubjectSpec{
			APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: BaselineKind, Name: resource, UID: types.UID(resource),
		},
	}
	got, err := l.client.Get(ctx, marker.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		got, err = l.client.Create(ctx, marker, metav1.CreateOptions{})
	}
	if apierrors.IsAlreadyExists(err) {
		got, err = l.client.Get(ctx, marker.Name, metav1.GetOptions{})
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("reading or writing CDEventSubject %s, which records since when events about %s are sent: %w", marker.Name, resource, err)
	}
	return got.CreationTimestamp.Time, nil
}

// BaselineKind is the spec.kind of the markers that Baseline creates.
const BaselineKind = "Baseline"

// Mark sets a condition on the marker of a kind. The marker must exist.
func (l *Ledger) Mark(ctx context.Context, resource string, c metav1.Condition) error {
	name := "baseline-" + resource
	marker, err := l.client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading CDEventSubject %s: %w", name, err)
	}
	marker = marker.DeepCopy()
	if !meta.SetStatusCondition(&marker.Status.Conditions, c) {
		return nil
	}
	if _, err := l.client.Update(ctx, marker, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("writing condition %s of CDEventSubject %s: %w", c.Type, name, err)
	}
	return nil
}
