package main

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/system"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate"
)

// runGates runs the gates that watch by themselves, and those that Tekton asks for.
// They have no leases: whoever leads for a Service works on its gates, so that
// sharedmain, which makes leases for all that it runs, does not run them.
func (p *process) runGates(ctx context.Context) {
	g := p.newGates(ctx)
	p.gates.Store(g)
	for _, impl := range []*controller.Impl{g.Gates(ctx), g.CustomRuns(ctx)} {
		p.running.Go(func() {
			if err := impl.RunContext(ctx, impl.Concurrency); err != nil {
				logging.FromContext(ctx).Errorw("This replica cannot run gates", "controller", impl.Name, "error", err)
			}
		})
	}
}

func (p *process) newGates(ctx context.Context) *gate.Gate {
	runs, err := dynamic.NewForConfig(p.config)
	must(ctx, "making a client for CustomRuns", err)
	return gate.New(gate.Options{
		Client: p.ours, Namespace: system.Namespace(), Runs: runs, Presence: p.presence, Service: p.view.Service, Counts: p.counts, Leads: p.isLeaderFor,
		Finished: p.judged, Metrics: p.gateMetrics, Now: time.Now, Stopping: ctx.Done(),
	})
}

// judged has the verdict of a run be told of the Service that it was about.
func (p *process) judged(key types.NamespacedName, uid types.UID, run *v1alpha1.GateRun) {
	if v := p.verdicts.Load(); v != nil {
		v.Reached(key, uid, verdictOf(run))
	}
}

// verdictOf a run, with the numbers that it stands on.
func verdictOf(run *v1alpha1.GateRun) lifecycle.Verdict {
	v := lifecycle.Verdict{
		Run: run.ID, Gate: run.Gate, Verdict: run.Verdict, Reasons: run.Reasons, Message: run.Message, Canary: run.Canary.Name,
		DryRun: slices.Contains(run.Reasons, string(verdict.DryRun)), Cancelled: slices.Contains(run.Reasons, gate.Cancelled),
		Started: run.StartTime.Time,
	}
	if run.Baseline != nil {
		v.Baseline = run.Baseline.Name
	}
	if run.CompletionTime != nil {
		v.Completed = run.CompletionTime.Time
	}
	var j judge.Judgement
	if run.Report == nil || json.Unmarshal(run.Report.Raw, &j) != nil {
		return v // it ended before anything was judged
	}
	v.Score, v.Coverage = j.Score, j.Coverage
	v.CanaryRequests, v.BaselineRequests = j.Canary.Requests, j.Baseline.Requests
	v.RequiredShare, v.HandledShare = j.RequiredShare, j.HandledShare
	for _, m := range j.Metrics {
		v.Metrics = append(v.Metrics, lifecycle.VerdictMetric{
			Name: m.Name, Verdict: m.Verdict, Reason: string(m.Reason), Canary: m.Canary, Baseline: m.Baseline,
		})
	}
	return v
}
