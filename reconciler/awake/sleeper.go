// SPDX-License-Identifier: Apache-2.0

package awake

import (
	"cmp"
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Sleeper puts the controller to sleep. It is what the controller has of this package.
type Sleeper struct {
	Rule interface {
		Everything(ctx context.Context) ([]string, error)
	}
	Deployment *Deployment
	// Stateful returns the Services that declare a stateful cluster; false while they are not known.
	Stateful func() ([]types.NamespacedName, bool)
	// Leads reports whether this replica is the one that decides.
	Leads func() bool
	// Leases has the Lease of the doorbell.
	Leases coordinationclient.LeaseInterface
	// Quiet is how long there must have been nothing to measure.
	Quiet func() time.Duration
	// Every is how often it looks; 0 for every minute.
	Every time.Duration

	// last is when there was something to measure, as far as this replica knows.
	last time.Time
}

// Run looks until the context ends.
func (s *Sleeper) Run(ctx context.Context) {
	s.last = s.Deployment.Now()
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := s.look(ctx); err != nil && ctx.Err() == nil {
			logging.FromContext(ctx).Warnw("It is not known whether the controller may sleep, so it stays awake", "error", err)
		}
	}, cmp.Or(s.Every, time.Minute))
}

// look puts the controller to sleep if it is time to.
func (s *Sleeper) look(ctx context.Context) error {
	now, quiet := s.Deployment.Now(), s.Quiet()
	since := s.last
	s.last = now // unless it turns out that there is nothing to measure
	if !s.Leads() {
		return nil
	}
	if rung, err := s.rung(ctx); err != nil || !rung {
		return err
	}
	// First the Deployment, then the reasons: who wakes the controller for a later one writes the Deployment.
	read, err := s.Deployment.Client.Get(ctx, controller, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading Deployment %s: %w", controller, err)
	}
	stateful, known := s.Stateful()
	if why, err := s.Rule.Everything(ctx); err != nil || len(why) > 0 || len(stateful) > 0 || !known {
		return err
	}
	s.last = since
	if asleep(read) || now.Sub(since) < quiet || now.Sub(written(read)) < quiet {
		return nil
	}
	err = s.Deployment.sleep(ctx, read, fmt.Sprintf("there has been nothing to measure for %s", quiet))
	switch {
	case apierrors.IsConflict(err):
		return nil // somebody has woken it, or the status has changed, so it is asked again
	case err != nil:
		return fmt.Errorf("putting Deployment %s to sleep: %w", controller, err)
	}
	logging.FromContext(ctx).Infow("The controller goes to sleep, because there is nothing to measure", "for", quiet)
	return nil
}

// rung reports whether a doorbell holds its Lease.
func (s *Sleeper) rung(ctx context.Context) (bool, error) {
	lease, err := s.Leases.Get(ctx, v1alpha1.DoorbellLease, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading Lease %s: %w", v1alpha1.DoorbellLease, err)
	}
	return v1alpha1.DoorbellHolds(lease, s.Deployment.Now()), nil
}
