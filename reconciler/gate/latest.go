// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"fmt"
	"math"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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

// latest returns the newest run of the gate, no matter who started it. The last known state of
// a deleted CustomRun stays.
func (s *gateSync) latest() *v1alpha1.GateLatest {
	newest, by := s.status.Run, ""
	for _, obj := range s.customRunsOf(s.gate.Namespace + "/" + s.gate.Name) {
		u, ok := obj.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		r, err := customrun.Read(u)
		if err != nil {
			continue
		}
		run, err := r.Status.GateRun()
		if err != nil || run == nil || newest != nil && !newest.StartTime.Before(&run.StartTime) {
			continue
		}
		newest, by = run, u.GetName()
	}
	was := s.status.Latest
	if newest == nil || was != nil && was.ID != newest.ID && newest.StartTime.Before(&was.StartTime) {
		return was
	}
	return summarize(newest, by)
}

func (g *Gate) customRunsOf(gate string) []any {
	all, err := g.runs.informer().GetIndexer().ByIndex(byGate, gate)
	if err != nil {
		return nil // the index always exists
	}
	return all
}

func summarize(run *v1alpha1.GateRun, by string) *v1alpha1.GateLatest {
	out := &v1alpha1.GateLatest{
		ID: run.ID, CustomRun: by, StartTime: run.StartTime, Verdict: run.Verdict, Reasons: strings.Join(run.Reasons, ", "),
		Message: run.Message, Canary: run.Canary.Name,
	}
	if run.Report == nil {
		return out // there is no judgement yet
	}
	j := *run.Report
	if j.Canary.Requests+j.Baseline.Requests == 0 && run.Verdict == verdict.Running && run.Minimum != nil {
		// There is no judgement yet, so all of it is missing.
		j.Canary.Missing, j.Baseline.Missing = deref(run.Minimum.CanaryRequests), deref(run.Minimum.BaselineRequests)
	}
	out.Requests, out.Missing = number(j.Canary.Requests), missing(&j)
	return out
}

func deref(n *int64) float64 {
	if n == nil {
		return 0
	}
	return float64(*n)
}

func number(n float64) string { return fmt.Sprintf("%.0f", math.Ceil(n)) }

// missing describes the missing evidence: the minimum, and what a metric needs beyond it.
func missing(j *verdict.Judgement) string {
	var say []string
	for _, n := range []struct {
		count float64
		what  string
	}{
		{j.MissingRequests(), "canary"},
		{j.Baseline.Missing, "baseline"},
		{float64(j.Canary.ShardsMissing), "canary shards"},
		{float64(j.Baseline.ShardsMissing), "baseline shards"},
	} {
		if n.count > 0 {
			say = append(say, number(n.count)+" "+n.what)
		}
	}
	if len(say) == 0 {
		return "none"
	}
	return strings.Join(say, ", ")
}
