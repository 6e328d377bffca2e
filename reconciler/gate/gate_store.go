// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
)

func (s *gateSync) owner() owner {
	return owner{Kind: ofGate, Namespace: s.gate.Namespace, Name: s.gate.Name, UID: s.gate.UID}
}

// load reads the stored run in progress.
func (s *gateSync) load(ctx context.Context) error { return s.loadFrom(ctx, false) }

// loadFrom loads the run, after a read from the API server if fresh.
func (s *gateSync) loadFrom(ctx context.Context, fresh bool) error {
	run := s.gate.Status.Run
	if !run.InProgress() {
		return nil
	}
	kept, err := s.records.get(ctx, s.owner())
	switch {
	case err != nil:
		return err
	case kept != nil && kept.ID == run.ID:
		s.run = kept
	case kept != nil && fresh: // the status was restored, or the cache is behind
		return s.restart(ctx, run)
	case kept != nil:
		s.records.remember(s.owner().recordName(), nil)
		return s.loadFrom(ctx, true)
	default:
		return s.restart(ctx, run)
	}
	return nil
}

// restart restarts a run whose record is lost. Its verdict was never reported.
func (s *gateSync) restart(ctx context.Context, run *v1alpha1.GateRun) error {
	if err := s.current(ctx); err != nil {
		return err
	}
	again, err := gaterun.Open(ctx, gaterun.Opening{
		Namespace: s.gate.Namespace, ID: run.ID, Spec: s.spec, Template: s.status.Template,
		Start: run.StartTime.Time,
	})
	if err != nil {
		return fmt.Errorf("beginning a run anew: %w", err)
	}
	again.GateRun.Gate, again.GateRun.Deadline = s.gate.Name, run.Deadline
	s.run, s.restarted = again.GateRun, true
	return nil
}

// current returns errConflict if the cache is behind the API server.
func (s *gateSync) current(ctx context.Context) error {
	is, err := s.Client.CanaryGates(s.gate.Namespace).Get(ctx, s.gate.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading CanaryGate %s/%s: %w", s.gate.Namespace, s.gate.Name, err)
	}
	if is.UID != s.gate.UID || is.ResourceVersion != s.gate.ResourceVersion {
		return errConflict
	}
	return nil
}

// store stores a changed run.
func (s *gateSync) store(ctx context.Context) error {
	if s.now == nil ||
		s.run != nil && equality.Semantic.DeepEqual(s.run, s.now) && s.records.cached(s.owner().recordName()) != nil {
		return nil
	}
	if s.run == nil {
		if err := s.current(ctx); err != nil {
			return err
		}
		// Load the record of an unreported run into the cache, so that put replaces it.
		if _, err := s.records.get(ctx, s.owner()); err != nil {
			return err
		}
	}
	return s.records.put(ctx, s.owner(), s.now)
}
