// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate/customrun"
)

// byGate is the index of CustomRuns by the gate of their run.
const byGate = "gate"

func indexByGate(obj any) ([]string, error) {
	if key := gateOf(obj); key != "" {
		return []string{key}, nil
	}
	return nil, nil
}

// gateOf returns the key of the CanaryGate of a CustomRun's run, or empty.
func gateOf(obj any) string {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || !customrun.Ours(u) {
		return ""
	}
	name, _, _ := unstructured.NestedString(u.Object, "status", "extraFields", "gate")
	if name == "" {
		return ""
	}
	return u.GetNamespace() + "/" + name
}

// gateRun is a run of a gate, and the CustomRun that it belongs to, if any.
type gateRun struct {
	*v1alpha1.GateRun
	customRun string
}

// runsOf returns all known runs of the gate, no matter who started them.
func (s *gateSync) runsOf() (all []gateRun) {
	if s.status.Run != nil {
		all = append(all, gateRun{s.status.Run, ""})
	}
	for _, obj := range s.customRunsOf(s.gate.Namespace + "/" + s.gate.Name) {
		u, ok := obj.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		r, err := customrun.Read(u)
		if err != nil {
			continue
		}
		for _, attempt := range r.Status.Attempts() {
			if run, err := attempt.GateRun(); err == nil && run != nil {
				all = append(all, gateRun{run, u.GetName()})
			}
		}
	}
	return all
}

// latest returns the newest of the gate's runs. The last known state of a deleted CustomRun stays.
func (s *gateSync) latest(runs []gateRun) *v1alpha1.GateLatest {
	was := s.status.Latest
	if len(runs) == 0 {
		return was
	}
	newest := slices.MaxFunc(runs, func(a, b gateRun) int { return a.StartTime.Compare(b.StartTime.Time) })
	if was != nil && was.ID != newest.ID && newest.StartTime.Before(&was.StartTime) {
		return was
	}
	return summarize(newest.GateRun, newest.customRun)
}

// deleted returns the run of latest, ended, if its CustomRun was deleted during the run or before this gate took note
// of its verdict. Only the API server can say so: the cache may be behind. If nothing of the run is stored, latest is
// ended in its place.
func (s *gateSync) deleted(ctx context.Context, runs []gateRun) []gateRun {
	latest := s.status.Latest
	if latest == nil || latest.CustomRun == "" || latest.Verdict != verdict.Running || !s.runs.informer().HasSynced() ||
		slices.ContainsFunc(runs, func(r gateRun) bool { return r.ID == latest.ID }) {
		return nil
	}
	all := s.Runs.Resource(customrun.Resource).Namespace(s.gate.Namespace)
	u, err := all.Get(ctx, latest.CustomRun, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) || err == nil && strings.HasPrefix(latest.ID, string(u.GetUID())+"-") {
		return nil
	}
	by := owner{Kind: ofCustomRun, UID: types.UID(latest.ID[:max(0, strings.LastIndexByte(latest.ID, '-'))])}
	record, err := s.records.client.Get(ctx, by.recordName(), metav1.GetOptions{})
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return nil
	case err == nil && record.Status.Run != nil && record.Status.Run.ID == latest.ID:
		if record, err = s.cancel(ctx, record); err != nil {
			return nil // the next sync tries again
		}
		return []gateRun{{record.Status.Run, latest.CustomRun}}
	}
	latest.Verdict, latest.Reasons, latest.Missing = verdict.Inconclusive, []string{Cancelled}, nil
	latest.Message = fmt.Sprintf(deletedEarly, ofCustomRun, latest.CustomRun)
	return nil
}

// history adds what has finished among the gate's runs to those that finished before, as many as the gate keeps.
func (s *gateSync) history(runs []gateRun) []v1alpha1.GatePastRun {
	all := slices.Clone(s.status.History)
	for _, run := range runs {
		known := slices.ContainsFunc(all, func(p v1alpha1.GatePastRun) bool { return p.ID == run.ID })
		if run.CompletionTime == nil || known {
			continue
		}
		all = append(all, v1alpha1.GatePastRun{
			GateRunSummary: summarize(run.GateRun, run.customRun).GateRunSummary, CompletionTime: *run.CompletionTime,
		})
	}
	slices.SortStableFunc(all, func(a, b v1alpha1.GatePastRun) int {
		return cmp.Or(b.CompletionTime.Compare(a.CompletionTime.Time), b.StartTime.Compare(a.StartTime.Time))
	})
	return all[:min(len(all), max(0, int(*s.spec.HistoryLimit)))]
}

func (g *Gate) customRunsOf(gate string) []any {
	all, err := g.runs.informer().GetIndexer().ByIndex(byGate, gate)
	if err != nil {
		return nil // the index always exists
	}
	return all
}

func summarize(run *v1alpha1.GateRun, by string) *v1alpha1.GateLatest {
	out := &v1alpha1.GateLatest{Message: run.Message, GateRunSummary: v1alpha1.GateRunSummary{
		ID: run.ID, CustomRun: by, Service: run.Service.Name, StartTime: run.StartTime, Verdict: run.Verdict,
		Reasons: run.Reasons, Canary: run.Canary.Name,
	}}
	if run.Baseline != nil {
		out.Baseline = run.Baseline.Name
	}
	if run.Report == nil {
		return out // there is no judgement yet
	}
	j := *run.Report
	if j.Canary.Requests+j.Baseline.Requests == 0 && run.Verdict == verdict.Running && run.Effective != nil {
		// There is no judgement yet, so all of it is missing.
		canary, baseline := run.Effective.Needs()
		j.Canary.Missing, j.Baseline.Missing = deref(canary), deref(baseline)
	}
	out.Requests = &v1alpha1.GateRequests{Canary: j.Canary.Requests, Baseline: j.Baseline.Requests}
	out.Missing = missing(&j)
	return out
}

func deref(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// missing returns the missing evidence: the minimum, and what a metric needs beyond it; nil if nothing is missing.
func missing(j *verdict.Judgement) *v1alpha1.GateMissing {
	out := v1alpha1.GateMissing{
		CanaryRequests: j.MissingRequests(), BaselineRequests: j.Baseline.Missing,
		CanaryShards: j.Canary.ShardsMissing, BaselineShards: j.Baseline.ShardsMissing,
	}
	if out == (v1alpha1.GateMissing{}) {
		return nil
	}
	return &out
}
