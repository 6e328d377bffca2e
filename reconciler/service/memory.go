// SPDX-License-Identifier: Apache-2.0

package service

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

// ConditionStateful is the condition that says whether the annotations that declare a
// stateful cluster are valid. There is none if nothing is declared.
const ConditionStateful = "StatefulDeclared"

// memory is what is remembered of a Service.
type memory struct {
	lifecycle.Memory
	kind *Kind
}

var _ observer.Belated = memory{}

// Recall implements observer.Kind.
func (k *Kind) Recall(stored []byte) (observer.Memory, error) {
	m := memory{kind: k}
	if len(stored) == 0 {
		return m, nil
	}
	if err := json.Unmarshal(stored, &m.Memory); err != nil {
		return nil, fmt.Errorf("decoding the memory of a Service: %w", err)
	}
	if err := m.Check(); err != nil {
		return nil, fmt.Errorf("the memory of a Service: %w", err)
	}
	return m, nil
}

// Next implements observer.Memory.
func (m memory) Next(ctx context.Context, s observer.Step) (observer.Result, error) {
	snapshot := Compose(s.Parts).Snapshot
	snapshot.Unconfirmed = s.Unconfirmed
	news, lagging := m.kind.fresh(m.Memory, &snapshot, s)
	if !news {
		return observer.Result{Lagging: lagging}, nil
	}
	r, err := m.decide(ctx, snapshot, s)
	if err != nil {
		return observer.Result{}, err
	}
	m.kind.nameSidecars(s.Key, r.Transitions)
	out := m.result(r)
	out.Lagging = lagging
	return out, nil
}

// End implements observer.Memory.
func (m memory) End(_ context.Context, at time.Time) (observer.Result, error) {
	return m.result(lifecycle.Next(m.kind.settings.Rules(), m.Memory, lifecycle.Snapshot{Gone: true}, at)), nil
}

// Belated implements observer.Belated: the deletion of a Service ends the runs of its gates.
func (m memory) Belated(p observer.Part, at time.Time) observer.Result {
	verdicts, _ := p.Value.([]lifecycle.Verdict) // nil of any other part
	return m.result(lifecycle.Belated(m.Memory, verdicts, at))
}

// Replay implements observer.Memory.
func (m memory) Replay(at time.Time) observer.Result { return m.result(lifecycle.Replay(m.Memory, at)) }

// Covers implements observer.Memory.
func (m memory) Covers(other observer.Memory) bool {
	o, ok := other.(memory)
	return ok && m.Memory.Covers(o.Memory)
}

// Waits implements observer.Memory.
func (m memory) Waits() map[lifecycle.Wait]time.Time { return m.Memory.Waits }

// Waiting implements observer.Memory.
func (m memory) Waiting(waits map[lifecycle.Wait]time.Time) observer.Memory {
	m.Memory.Waits = waits
	return m
}

// ConditionPlacement is the condition that says whether the members of a cluster follow its plan. There is none
// without a plan that they are to follow.
const ConditionPlacement = "PlacementEnforced"

// ConditionCluster is the condition that a stateful cluster has an incident, which was announced and goes on. There is
// none without.
const ConditionCluster = "ClusterTroubled"

// Conditions implements observer.Memory.
func (m memory) Conditions() []metav1.Condition {
	if wrong := m.Misdeclared(); wrong != "" {
		return []metav1.Condition{{
			Type: ConditionStateful, Status: metav1.ConditionFalse, Reason: "InvalidAnnotations",
			Message: "the newest Revision is treated as one that declares no stateful cluster: " + wrong,
		}}
	}
	if m.Cluster == nil || m.Cluster.Runtime == "" {
		return nil
	}
	out := []metav1.Condition{{
		Type: ConditionStateful, Status: metav1.ConditionTrue, Reason: "Declared", Message: "runtime " + m.Cluster.Runtime,
	}}
	if p := m.Cluster.Placement; p != nil {
		out = append(out, placement(p))
	}
	for _, kind := range []lifecycle.Incident{lifecycle.ClusterSplit, lifecycle.ClusterTrouble} {
		if e := m.Episodes[kind]; e != nil && e.Reason != "" {
			return append(out, metav1.Condition{
				Type: ConditionCluster, Status: metav1.ConditionTrue, Reason: e.Reason,
				Message: "an incident of the stateful cluster goes on since " + e.Since.UTC().Format(time.RFC3339),
			})
		}
	}
	return out
}

func placement(p *lifecycle.PlacementMemory) metav1.Condition {
	if p.Coordinator != "" {
		return metav1.Condition{
			Type: ConditionPlacement, Status: metav1.ConditionFalse, Reason: "CoordinatorWithoutPlacement",
			Message: "the oldest member of the cluster assigns the shards, and its Revision " + p.Coordinator +
				" does not declare placement: enforce; until its pods are gone, the runtime's default places shards",
		}
	}
	return metav1.Condition{Type: ConditionPlacement, Status: metav1.ConditionTrue, Reason: "CoordinatorHasPlacement"}
}

func (m memory) result(r lifecycle.Result) observer.Result {
	return observer.Result{
		Memory: memory{Memory: r.Memory, kind: m.kind}, Transitions: r.Transitions, Save: r.Memory.MustSave(m.Memory),
		Wake: r.WakeAt, Wait: len(r.Missing) > 0, Unsure: r.Unsure,
	}
}

// decide asks the lifecycle. If it does not know a Revision that gets traffic, it asks again
// with the Revisions that came later, and then with what the API server has.
func (m memory) decide(ctx context.Context, s lifecycle.Snapshot, from observer.Step) (lifecycle.Result, error) {
	next := func() lifecycle.Result {
		if from.Baseline {
			return lifecycle.Baseline(s)
		}
		return lifecycle.Next(m.kind.settings.Rules(), m.Memory, s, from.At)
	}
	r := next()
	if len(r.Missing) == 0 {
		return r, nil
	}
	later := revisionsOf(from.Later())
	s.Revisions = known(from.Parts, later...)
	if r = next(); len(r.Missing) == 0 || from.Patient {
		return r, nil
	}
	fetched, err := m.kind.fetch(ctx, from.Key.Namespace, r.Missing)
	if err != nil {
		return r, fmt.Errorf("fetching the Revisions %v that get traffic of %s: %w", r.Missing, from.Key, err)
	}
	s.Revisions = known(from.Parts, append(later, fetched)...)
	s.NoWait = map[string]bool{}
	for _, name := range r.Missing {
		s.NoWait[name] = true
	}
	return next(), nil
}

// revisionsOf returns the parts after each state that a Revision led to.
func revisionsOf(states []observer.State) []observer.Parts {
	var out []observer.Parts
	for _, s := range states {
		if isRevision(s.Changed.Value) {
			out = append(out, s.Parts)
		}
	}
	return out
}

func isRevision(value any) bool {
	_, ok := value.(revisionValue)
	return ok
}

// known returns the Revisions of a Service at one moment, together with those that came
// later or were fetched, as far as they belong to it. A Revision of the same name may be
// left of a Service that is gone.
func known(at observer.Parts, more ...observer.Parts) map[string]*lifecycle.Revision {
	out := map[string]*lifecycle.Revision{}
	for _, parts := range append([]observer.Parts{at}, more...) {
		with := maps.Clone(at)
		for name, p := range parts {
			if isRevision(p.Value) {
				with[name] = p
			}
		}
		for name, r := range Compose(with).Snapshot.Revisions {
			if had := out[name]; had == nil || !had.Ready {
				out[name] = r
			}
		}
	}
	return out
}
