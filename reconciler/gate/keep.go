// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

const (
	// keepFor is how long it is kept what a finished run measured, if its gate does not have too many runs since.
	keepFor = 28 * 24 * time.Hour
	// pruneEvery is how many resyncs pass until what is kept for too long is deleted.
	pruneEvery = 15
)

// keep keeps what a finished run measured, in a CanaryGateRun of its own. It may be called again as long as the record
// of the run exists: what was pruned meanwhile does not come back.
func (g *Gate) keep(ctx context.Context, record *v1alpha1.CanaryGateRun) error {
	run := record.Status.Run
	if run == nil || run.CompletionTime == nil || run.Evidence == nil {
		return nil
	}
	if _, done := g.copied.Load(run.ID); done {
		return nil
	}
	if err := g.copyRun(ctx, record); err != nil {
		return err
	}
	g.copied.Store(run.ID, true)
	return nil
}

func (g *Gate) copyRun(ctx context.Context, record *v1alpha1.CanaryGateRun) error {
	run := record.Status.Run
	of := record.Spec
	gate, err := g.find(ctx, of.Namespace, run.Gate)
	switch {
	case err != nil:
		return err
	case gate != nil && g.limit(ctx, gate) == 0, of.Kind == ofGate && (gate == nil || gate.UID != of.UID):
		return nil
	case gate != nil: // the CustomRuns of a gate are runs of the gate
		of = v1alpha1.CanaryGateRunSpec{Kind: ofGate, Namespace: gate.Namespace, Name: gate.Name, UID: gate.UID}
	}
	kept := run.Public()
	kept.Effective, kept.Report, kept.Evidence = nil, nil, run.Evidence
	out := &v1alpha1.CanaryGateRun{
		TypeMeta: record.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Name: strings.ToLower(record.Spec.Kind) + "-" + run.ID, Labels: map[string]string{v1alpha1.FinishedRunLabel: "true"},
			Annotations: map[string]string{v1alpha1.RunServiceAnnotation: run.Service.Name},
		},
		Spec: of, Status: v1alpha1.CanaryGateRunStatus{Run: kept},
	}
	out.AnnotateOwner()
	_, err = g.records.client.Create(ctx, out, metav1.CreateOptions{})
	switch {
	case err == nil, apierrors.IsAlreadyExists(err):
		g.kept.Store(true)
		return nil
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsRequestEntityTooLargeError(err):
		// As with a quota. The next run must not wait for it.
		logging.FromContext(ctx).Warnw("What a finished run measured is lost, as the API server refuses to keep it",
			"gate", out.Spec.Namespace+"/"+out.Spec.Name, "run", run.ID, "error", err)
		return nil
	}
	return fmt.Errorf("keeping what run %s measured: %w", run.ID, err)
}

// limit is how many finished runs a gate keeps.
func (*Gate) limit(ctx context.Context, gate *v1alpha1.CanaryGate) int {
	spec := gate.Spec.DeepCopy()
	spec.SetDefaults(ctx)
	return max(0, int(*spec.HistoryLimit))
}

// prune deletes what is kept of finished runs for too long: of each gate, as many as its historyLimit stay, and of a
// Service whose CustomRuns have no gate, as many as by default.
func (g *Gate) prune(ctx context.Context) error {
	all, err := g.Client.CanaryGateRunNames(ctx, g.Namespace, v1alpha1.FinishedRunLabel)
	if err != nil {
		return err //nolint:wrapcheck // the error is complete
	}
	slices.SortFunc(all, func(a, b metav1.PartialObjectMetadata) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), strings.Compare(b.Name, a.Name))
	})
	limits, seen := map[v1alpha1.CanaryGateRunSpec]int{}, map[v1alpha1.CanaryGateRunSpec]int{}
	for i := range all {
		m := &all[i]
		of := v1alpha1.RunOwner(m)
		service := types.NamespacedName{Namespace: of.Namespace, Name: m.Annotations[v1alpha1.RunServiceAnnotation]}
		if of.Kind != ofGate {
			of = v1alpha1.CanaryGateRunSpec{Namespace: service.Namespace, Name: service.Name}
		}
		if _, known := limits[of]; !known {
			if limits[of], err = g.most(ctx, of, service); err != nil {
				return err
			}
		}
		seen[of]++
		if seen[of] <= limits[of] && g.Clock.Now().Sub(m.CreationTimestamp.Time) < keepFor || !g.Leader.IsLeaderFor(service) {
			continue
		}
		if err := g.records.remove(ctx, m.Name, m.UID, m.ResourceVersion); err != nil {
			return err
		}
	}
	return nil
}

// most is how many finished runs of a gate, or of a Service, are kept: none after its end.
func (g *Gate) most(ctx context.Context, of v1alpha1.CanaryGateRunSpec, service types.NamespacedName) (int, error) {
	if of.Kind == ofGate {
		gate, err := g.find(ctx, of.Namespace, of.Name)
		if err != nil || gate == nil || gate.UID != of.UID {
			return 0, err
		}
		return g.limit(ctx, gate), nil
	}
	if s, known := g.Services.Service(service); s == nil && known && !g.stopping() {
		return 0, nil
	}
	return g.limit(ctx, &v1alpha1.CanaryGate{}), nil
}
