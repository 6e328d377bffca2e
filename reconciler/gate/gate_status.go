// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// write updates a changed status, at most once per interval unless a run starts or ends.
// Then it reports the run if it is complete.
func (s *gateSync) write(ctx context.Context) error {
	key := types.NamespacedName{Namespace: s.gate.Namespace, Name: s.gate.Name}
	if s.status.ObservedGeneration = s.gate.Generation; !sameJSON(s.status, s.gate.Status) {
		if !s.urgent() && !s.due(key.String()) {
			return nil
		}
		changed := s.gate.DeepCopy()
		changed.Status = s.status
		if _, err := s.Client.CanaryGates(key.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("writing the status of CanaryGate %s: %w", key, err)
		}
		s.wrote(key.String())
	}
	if s.status.Run == nil {
		return nil
	}
	s.report() // if it is too early, the next sync reports it
	if s.status.Run.CompletionTime == nil {
		return nil
	}
	return s.records.finish(ctx, s.owner()) // if it fails, collect does it
}

// report reports the run as it was written. It returns false if it is too early.
func (s *gateSync) report() bool {
	s.Metrics.Record(s.gate.Namespace, s.status.Run)
	return s.reporter.report(s.gate.Namespace, s.status.Run)
}

// due reports whether an interval has passed since the last write.
func (s *gateSync) due(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.Clock.Now().Before(s.written[key].Add(interval(s.spec)))
}

func (c *gates) forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.written, key)
}

func (s *gateSync) wrote(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written[key] = s.Clock.Now()
}

func samePast(a, b v1alpha1.GatePastRun) bool { return a.ID == b.ID }

// urgent reports whether the change must be written at once.
func (s *gateSync) urgent() bool {
	was, is := s.gate.Status.Run, s.status.Run
	old, latest := s.gate.Status.Latest, s.status.Latest
	switch {
	case latest != nil && (old == nil || old.ID != latest.ID || old.Verdict != latest.Verdict):
		return true
	case !slices.EqualFunc(s.gate.Status.History, s.status.History, samePast):
		return true
	case s.gate.Status.ObservedGeneration != s.gate.Generation:
		return true
	case is == nil:
		return false
	case was == nil || was.ID != is.ID:
		return true
	}
	if was.SplitEndTime == nil && is.SplitEndTime != nil {
		return true // else the verdict would stand for the split that comes back before this write
	}
	return was.CompletionTime == nil && (is.CompletionTime != nil || was.Canary.Name != is.Canary.Name)
}
