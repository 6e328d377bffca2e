// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// memory is what is remembered of an environment.
type memory struct {
	lifecycle.EnvironmentMemory
	kind *Kind
}

var _ observer.Memory = memory{}

// Recall implements observer.Kind.
func (k *Kind) Recall(raw []byte) (observer.Memory, error) {
	m := memory{kind: k}
	if len(raw) == 0 {
		return m, nil
	}
	if err := json.Unmarshal(raw, &m.EnvironmentMemory); err != nil {
		return nil, fmt.Errorf("decoding the memory of an environment: %w", err)
	}
	return m, nil
}

// Next implements observer.Memory.
func (m memory) Next(ctx context.Context, s observer.Step) (observer.Result, error) {
	v, ok := s.Parts[partObject].Value.(value)
	version := s.Parts[partObject].Version
	if !ok {
		return observer.Result{}, nil
	}
	if observer.Older(version, m.Version) {
		return observer.Result{Lagging: len(s.Later()) == 0}, nil
	}
	excluded, known := m.kind.excluded(v)
	if !known {
		return observer.Result{Wait: true, Wake: m.kind.reader.now().Add(completeAfter)}, nil
	}
	snapshot, again := m.kind.snapshot(ctx, s.Key, m.EnvironmentMemory, v, version, excluded)
	if snapshot.Excluded && !m.Announced {
		return observer.Result{}, nil // nothing is remembered of it
	}
	snapshot.Unconfirmed = s.Unconfirmed
	var r lifecycle.EnvironmentResult
	if s.Baseline {
		r = lifecycle.BaselineEnvironment(snapshot)
	} else {
		r = lifecycle.NextEnvironment(m.kind.settings.Rules(), m.EnvironmentMemory, snapshot, s.At)
	}
	if at := m.kind.reader.now().Add(again); again > 0 && (r.WakeAt.IsZero() || at.Before(r.WakeAt)) {
		r.WakeAt = at
	}
	return m.result(r), nil
}

func (m memory) result(r lifecycle.EnvironmentResult) observer.Result {
	return observer.Result{
		Memory: memory{EnvironmentMemory: r.Memory, kind: m.kind}, Transitions: r.Transitions,
		Save: !r.Memory.Covers(m.EnvironmentMemory), Wake: r.WakeAt, Unsure: r.Unsure,
	}
}

// waitBeneath is the wait for the resources of an object that is gone.
const waitBeneath lifecycle.Wait = "beneath"

// End implements observer.Memory. An environment is deleted when all of its resources are, as far as they can be
// read: a claim and its composite are gone long before the cluster is.
func (m memory) End(ctx context.Context, at time.Time) (observer.Result, error) {
	s := lifecycle.EnvironmentSnapshot{Gone: true}
	if !m.Kept && !m.Excluded && (m.Created || m.Baselined) {
		since, waiting := m.EnvironmentMemory.Waits[waitBeneath]
		if !waiting {
			m.Resources, _ = m.kind.reader.fates(ctx, m.Resources, nil, true) // what is left of them
		}
		orphaned, all := lifecycle.Orphaned(m.Resources)
		m.Kept = all
		left, unreadable := m.kind.reader.left(ctx, m.Resources)
		if now := m.kind.reader.now(); left != nil &&
			(!waiting || now.Sub(since) < m.kind.settings.Rules().EnvironmentDeletedWithin) {
			if !waiting {
				m.EnvironmentMemory.Waits = maps.Clone(m.EnvironmentMemory.Waits)
				if m.EnvironmentMemory.Waits == nil {
					m.EnvironmentMemory.Waits = map[lifecycle.Wait]time.Time{}
				}
				m.EnvironmentMemory.Waits[waitBeneath] = now
			}
			return observer.Result{
				Memory: m, Wait: true,
				Wake: now.Add(beneathAgain(now.Sub(m.EnvironmentMemory.Waits[waitBeneath]))),
			}, nil
		}
		if s.BeneathReason = beneath(orphaned, left, unreadable); s.BeneathReason != "" {
			s.Beneath = lifecycle.BeneathUnknown
		}
	}
	return m.result(lifecycle.NextEnvironment(m.kind.settings.Rules(), m.EnvironmentMemory, s, at)), nil
}

// beneath says why resources of an environment may still exist; it is empty if none does.
func beneath(orphaned []lifecycle.ResourceRef, left, unreadable *lifecycle.ResourceRef) string {
	switch {
	case len(orphaned) > 0:
		return fmt.Sprintf(
			"%d of its resources were to be kept, such as %s %s: the deletion policy or the management policies said so",
			len(orphaned),
			orphaned[0].Kind,
			orphaned[0].Name,
		)
	case left != nil:
		return fmt.Sprintf("%s %s still existed, or could not be read, when the wait ended", left.Kind, left.Name)
	case unreadable != nil:
		return fmt.Sprintf("the controller may not read %s %s", unreadable.Kind, unreadable.Name)
	}
	return ""
}

// beneathAgain is how long to wait before asking again for the resources of an object that has been gone for a while.
// A cluster in a cloud takes minutes to go, and each question may be hundreds of requests.
func beneathAgain(waited time.Duration) time.Duration {
	return min(max(waited/8, 2*time.Second), time.Minute)
}

// Replay implements observer.Memory.
func (m memory) Replay(at time.Time) observer.Result {
	return m.result(lifecycle.ReplayEnvironment(m.EnvironmentMemory, at))
}

// Covers implements observer.Memory.
func (m memory) Covers(other observer.Memory) bool {
	o, ok := other.(memory)
	return ok && m.EnvironmentMemory.Covers(o.EnvironmentMemory)
}

// Waits implements observer.Memory.
func (m memory) Waits() map[lifecycle.Wait]time.Time { return m.EnvironmentMemory.Waits }

// Waiting implements observer.Memory.
func (m memory) Waiting(waits map[lifecycle.Wait]time.Time) observer.Memory {
	m.EnvironmentMemory.Waits = waits
	return m
}

// Conditions implements observer.Memory.
func (m memory) Conditions() []metav1.Condition { return nil }
