// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/traffic"
	"github.com/knative-cdevents/knative-cdevents/cli/compare"
	"github.com/knative-cdevents/knative-cdevents/cli/timeline"
)

// Compare returns what other tools would have said of the runs that ended since a time. The Service may be empty.
func (r *Reporter) Compare(
	ctx context.Context, namespace, service string, since time.Time, rules compare.Rules,
) (*compare.Comparison, error) {
	runs, err := r.FinishedRuns(ctx, namespace)
	if err != nil {
		return nil, err
	}
	runs = slices.DeleteFunc(runs, func(o v1alpha1.CanaryGateRun) bool {
		run := o.Status.Run
		return run == nil || run.CompletionTime == nil || run.Baseline == nil || run.Evidence == nil ||
			service != "" && run.Service.Name != service || run.CompletionTime.Time.Before(since)
	})
	out := &compare.Comparison{Since: since, Rows: []compare.Row{}, Rules: compare.Versions}
	lines := map[types.UID]timeline.Timeline{}
	for i := range runs {
		run := runs[i].Status.Run
		measured, err := traffic.Unpack(run.Evidence.Raw)
		if err != nil {
			out.Notes = append(out.Notes, fmt.Sprintf("run %s is left out: %v", run.ID, err))
			continue
		}
		if _, known := lines[run.Service.UID]; !known {
			if lines[run.Service.UID], err = r.line(ctx, run.Service.UID); err != nil {
				out.Notes = append(out.Notes, fmt.Sprintf("what became of the canaries of %s is not known: %v", run.Service.Name, err))
			}
		}
		row := compare.Row{
			Namespace: runs[i].Spec.Namespace, Service: run.Service.Name, Gate: run.Gate, Run: run.ID, Canary: run.Canary.Name,
			Baseline: run.Baseline.Name, Start: run.StartTime.UTC(), End: run.CompletionTime.UTC(), Sharded: measured.Sharded,
			DryRun: slices.Contains(run.Reasons, string(verdict.DryRun)), Reasons: run.Reasons, Others: rules.Opinions(measured),
			Ours: compare.Opinion{
				Tool: compare.Gate, Decision: compare.Ours(run.Verdict), Verdict: string(run.Verdict),
				Minutes: math.Round(measured.End().Minutes()*10) / 10, Requests: compare.Requests(measured, measured.End()),
			},
		}
		fate, at := lines[run.Service.UID].Fate(run.Canary.Name, run.StartTime.Time, run.CompletionTime.Time)
		if fate == timeline.Unknown && becameBaseline(runs, run) {
			fate = timeline.Kept // the ledger has not kept it
		}
		if row.Afterwards = fate; !at.IsZero() {
			row.Since = &at
		}
		out.Rows = append(out.Rows, row)
	}
	out.Sum()
	return out, nil
}

// line is what the ledger has of a Service.
func (r *Reporter) line(ctx context.Context, service types.UID) (timeline.Timeline, error) {
	entry, err := r.Entry(ctx, "Service", service)
	switch {
	case err != nil:
		return timeline.Timeline{}, err //nolint:wrapcheck // it is for users
	case entry == nil:
		return timeline.Timeline{}, errors.New("the ledger has no entry of it")
	}
	return timeline.Of(entry)
}

// becameBaseline reports whether a later canary was compared with this one.
func becameBaseline(runs []v1alpha1.CanaryGateRun, of *v1alpha1.GateRun) bool {
	return slices.ContainsFunc(runs, func(o v1alpha1.CanaryGateRun) bool {
		later := o.Status.Run
		return later.StartTime.After(of.StartTime.Time) && later.Service.UID == of.Service.UID &&
			later.Baseline.UID == of.Canary.UID
	})
}
