// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/cli/advice"
	"github.com/knative-cdevents/knative-cdevents/cli/reader"
)

// GateReport is the running or last run of a gate.
type GateReport struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Service   string `json:"service"`
	// Run is the running or last run; absent if there has been none.
	Run *v1alpha1.GateRun `json:"run,omitempty"`
	// Summary says in one line why the run is where it is, and Remarks what no figure of the run shows.
	Summary string   `json:"summary,omitempty"`
	Remarks []string `json:"remarks,omitempty"`
	// CustomRun is the Tekton CustomRun that the run belongs to, if any.
	CustomRun string `json:"customRun,omitempty"`
	// History lists the last finished runs, newest first.
	History []v1alpha1.GatePastRun `json:"history,omitempty"`
	// Finding says whether the gate can judge and decides.
	Finding advice.Finding `json:"finding"`
	Notes   []string       `json:"notes,omitempty"`

	// Spec is the gate's, with defaults.
	Spec v1alpha1.CanaryGateSpec `json:"-"`
}

// Exposure returns what the run accepts of the canary's share. A run that does not show it has that of the gate.
func (g *GateReport) Exposure() *v1alpha1.GateExposure {
	if g.Run != nil && g.Run.Effective != nil && g.Run.Effective.Exposure != nil {
		return g.Run.Effective.Exposure
	}
	return g.Spec.Exposure
}

// GateRuns reads the gates of a Service, or else the gate of that name.
func (r *Reporter) GateRuns(ctx context.Context, namespace, name string) ([]*GateReport, error) {
	kind, name, has := divided(name)
	service, gate := slices.Contains(ServiceKinds, kind), slices.Contains(gateKinds, kind)
	if has && !service && !gate {
		return nil, unknownKind(kind, "service and gate")
	}
	gates, err := r.Gates(ctx, namespace)
	if err != nil {
		return nil, err
	}
	var of, named []*v1alpha1.CanaryGate
	for i := range gates {
		if gates[i].Spec.Service == name && !gate {
			of = append(of, &gates[i])
		}
		if gates[i].Name == name && !service {
			named = append(named, &gates[i])
		}
	}
	if len(of) == 0 {
		of = named
	}
	if len(of) == 0 && gate {
		return nil, &reader.Error{Kind: reader.ErrNotFound, Message: fmt.Sprintf("there is no CanaryGate %q in namespace %s", name, namespace)}
	}
	if len(of) == 0 {
		if _, err := r.Service(ctx, namespace, name); err != nil {
			return nil, err
		}
		return nil, &reader.Error{Kind: reader.ErrNotFound, Message: fmt.Sprintf(
			"Service %[1]q in namespace %[2]s has no gate; to create one: kubectl cdevents create gate %[1]s -n %[2]s --service %[1]s --watch",
			name, namespace,
		)}
	}
	var out []*GateReport
	for _, g := range of {
		out = append(out, r.gate(ctx, g))
	}
	return out, nil
}

func (r *Reporter) gate(ctx context.Context, g *v1alpha1.CanaryGate) *GateReport {
	// Without the Service, the finding says less.
	judged, err := r.Service(ctx, g.Namespace, g.Spec.Service)
	if err != nil {
		judged = nil
	}
	out := &GateReport{
		Namespace: g.Namespace, Name: g.Name, Service: g.Spec.Service, Run: g.Status.Run.Public(),
		History: g.Status.History, Finding: r.Clock.Gate(g, judged),
	}
	if !r.Since.IsZero() {
		out.History = slices.DeleteFunc(slices.Clone(out.History), func(p v1alpha1.GatePastRun) bool {
			return p.CompletionTime.Time.Before(r.Since)
		})
	}
	out.Spec = *g.Spec.DeepCopy()
	out.Spec.SetDefaults(ctx)
	if latest := g.Status.Latest; latest != nil && latest.CustomRun != "" {
		run, err := r.CustomRun(ctx, g.Namespace, latest.CustomRun)
		switch {
		case err != nil:
			out.Notes = append(out.Notes,
				fmt.Sprintf("the newest run belongs to CustomRun %s, and its numbers are not shown: %v", latest.CustomRun, err))
			out.Run = &v1alpha1.GateRun{
				ID:        latest.ID,
				Gate:      g.Name,
				Service:   v1alpha1.GateObject{Name: cmp.Or(latest.Service, g.Spec.Service)},
				Canary:    v1alpha1.GateObject{Name: latest.Canary},
				StartTime: latest.StartTime,
				Verdict:   latest.Verdict,
				Reasons:   latest.Reasons,
				Message:   latest.Message,
			}
		case run != nil:
			out.Run, out.CustomRun = run, latest.CustomRun
		}
	}
	if out.Run != nil {
		out.Summary, out.Remarks = advice.Summary(out.Run), advice.Remarks(out.Run)
	}
	return out
}
