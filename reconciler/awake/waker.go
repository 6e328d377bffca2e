// SPDX-License-Identifier: Apache-2.0

package awake

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Waker wakes the controller if the rule says so. It is what the core has of this package.
type Waker struct {
	Rule       *Rule
	Deployment *Deployment
}

// Everything looks for anything to measure, but for the stateful clusters that Services declare.
func (w *Waker) Everything(ctx context.Context) error {
	why, err := w.Rule.Everything(ctx)
	return w.wake(ctx, why, err)
}

// Service looks for anything to measure of a Service, but for that it declares a stateful cluster.
func (w *Waker) Service(ctx context.Context, of types.NamespacedName) error {
	why, err := w.Rule.Service(ctx, of)
	return w.wake(ctx, why, err)
}

// Stateful wakes the controller for a Service that declares a stateful cluster: its members are polled, and may ask for
// their placement.
func (w *Waker) Stateful(ctx context.Context, of types.NamespacedName) error {
	return w.wake(ctx, []string{"Service " + of.String() + " declares a stateful cluster"}, nil)
}

// Object looks at an object of another kind; false if nothing of that kind is ever measured.
func (w *Waker) Object(ctx context.Context, kind schema.GroupKind, of types.NamespacedName) (bool, error) {
	why, is, err := w.Rule.Object(ctx, kind, of)
	return is, w.wake(ctx, why, err)
}

// wake wakes the controller for the reasons that are known, whatever else could not be read.
func (w *Waker) wake(ctx context.Context, why []string, err error) error {
	if err != nil {
		err = fmt.Errorf("looking for something to measure: %w", err)
	}
	return errors.Join(err, w.Deployment.Wake(ctx, why))
}
