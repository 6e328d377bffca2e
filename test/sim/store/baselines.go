// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Baselines implements ledger.BaselineClient. Its writes are not among those that the store counts.
type Baselines struct{ *Store }

// Baseline returns a CDEventBaseline, or nil. The caller must not change it.
func (s *Store) Baseline(name string) *v1alpha1.CDEventBaseline {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.baselines[name]
}

func (b Baselines) do(
	verb, name string, f func() (*v1alpha1.CDEventBaseline, error),
) (*v1alpha1.CDEventBaseline, error) {
	if b.Before != nil {
		if err := b.Before(verb, name); err != nil {
			return nil, err
		}
	}
	b.mu.Lock()
	out, err := f()
	b.mu.Unlock()
	if err == nil && b.After != nil {
		err = b.After(verb, name)
	}
	if err != nil {
		return nil, err
	}
	return out.DeepCopy(), nil
}

// Create implements ledger.BaselineClient.
func (b Baselines) Create(_ context.Context, o *v1alpha1.CDEventBaseline,
	_ metav1.CreateOptions,
) (*v1alpha1.CDEventBaseline, error) {
	return b.do("create", o.Name, func() (*v1alpha1.CDEventBaseline, error) {
		if _, ok := b.baselines[o.Name]; ok {
			return nil, apierrors.NewAlreadyExists(v1alpha1.BaselineResource.GroupResource(), o.Name)
		}
		c := o.DeepCopy()
		c.ResourceVersion, c.CreationTimestamp = b.next(), b.created()
		b.baselines[o.Name] = c
		return c, nil
	})
}

// Update implements ledger.BaselineClient.
func (b Baselines) Update(_ context.Context, o *v1alpha1.CDEventBaseline,
	_ metav1.UpdateOptions,
) (*v1alpha1.CDEventBaseline, error) {
	return b.do("update", o.Name, func() (*v1alpha1.CDEventBaseline, error) {
		have, ok := b.baselines[o.Name]
		switch {
		case !ok:
			return nil, apierrors.NewNotFound(v1alpha1.BaselineResource.GroupResource(), o.Name)
		case have.ResourceVersion != o.ResourceVersion:
			return nil, apierrors.NewConflict(v1alpha1.BaselineResource.GroupResource(), o.Name, errOutdated)
		}
		c := o.DeepCopy()
		c.ResourceVersion = b.next()
		b.baselines[o.Name] = c
		return c, nil
	})
}

// Get implements ledger.BaselineClient.
func (b Baselines) Get(_ context.Context, name string, _ metav1.GetOptions) (*v1alpha1.CDEventBaseline, error) {
	return b.do("get", name, func() (*v1alpha1.CDEventBaseline, error) {
		have, ok := b.baselines[name]
		if !ok {
			return nil, apierrors.NewNotFound(v1alpha1.BaselineResource.GroupResource(), name)
		}
		return have, nil
	})
}
