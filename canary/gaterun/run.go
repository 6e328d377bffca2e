package gaterun

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
)

const (
	// patience is how long a split is waited for where everything that was asked of
	// the Service has come.
	patience = 2 * time.Minute
	// unsettled is how long a Service may be on its way to something else before the
	// split that is in force counts.
	unsettled = 30 * time.Second
)

// Counts say what was counted of a Service; attribution.Books do.
type Counts interface {
	Snapshot(service types.NamespacedName) (attribution.Snapshot, bool)
	Since(service types.NamespacedName, from attribution.Snapshot) (attribution.Delta, bool)
	Figure(service types.NamespacedName) (attribution.Figures, bool)
}

// Look is (*judge.Run).Look.
type Look func(r *judge.Run, p judge.Plan, w judge.Window) judge.Judgement

// Moment is when a trial is taken on, and what is known then.
type Moment struct {
	Now time.Time
	// Known is false as long as it is not known which Services there are. Service is
	// nil if this one does not exist.
	Known   bool
	Service *Service
	Counts  Counts
	Look    Look
}

// Trial is a run that is under way.
type Trial struct {
	Namespace string
	Run       *v1alpha1.GateRun
	Spec      *v1alpha1.CanaryGateSpec

	evidence *evidence
	last     judge.Judgement
}

// Open begins a trial. Defaults are filled into the spec, which is frozen. limit is
// how long whoever asked for it waits; 0 is for as long as it takes.
func Open(ctx context.Context, namespace, id string, spec *v1alpha1.CanaryGateSpec, now time.Time, limit time.Duration) (*Trial, error) {
	spec = spec.DeepCopy()
	spec.SetDefaults(ctx)
	raw, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("writing the gate's spec: %w", err)
	}
	return &Trial{Namespace: namespace, Spec: spec, Run: &v1alpha1.GateRun{
		ID: id, Service: v1alpha1.GateObject{Name: spec.Service}, Spec: &runtime.RawExtension{Raw: raw}, Minimum: spec.Minimum.DeepCopy(),
		StartTime: whole(now), Deadline: whole(now.Add(within(spec, limit))),
		Verdict: verdict.Running, Message: "The run has just started",
	}}, nil
}

// whole is a time as it is read again once it was written.
func whole(t time.Time) metav1.Time {
	at := metav1.NewTime(t)
	return at.Rfc3339Copy()
}

// within is how long a trial may take, so that who waits hears of its end in time.
func within(spec *v1alpha1.CanaryGateSpec, limit time.Duration) time.Duration {
	own := span(spec.Schedule.Timeout)
	if limit <= 0 {
		return own
	}
	less := limit - 2*span(spec.Schedule.Interval)
	if less <= 0 {
		less = limit / 2
	}
	return min(own, less)
}

// Resume goes on with a run that was read.
func Resume(ctx context.Context, namespace string, run *v1alpha1.GateRun) (*Trial, error) {
	t := &Trial{Namespace: namespace, Run: run.DeepCopy(), Spec: &v1alpha1.CanaryGateSpec{}}
	if run.Spec == nil {
		t.Spec.SetDefaults(ctx)
		return t, problem(EvidenceUnreadable, "the spec that the run began with is missing")
	}
	if err := json.Unmarshal(run.Spec.Raw, t.Spec); err != nil {
		t.Spec = &v1alpha1.CanaryGateSpec{}
		t.Spec.SetDefaults(ctx)
		return t, fmt.Errorf("reading the spec that the run began with: %w", err)
	}
	// What is new since it was written has its default.
	t.Spec.SetDefaults(ctx)
	if wrong := t.Spec.Validate(ctx); wrong != nil {
		t.Spec = &v1alpha1.CanaryGateSpec{}
		t.Spec.SetDefaults(ctx)
		return t, problem(EvidenceUnreadable, "the spec that the run began with is not valid: %s", wrong)
	}
	var err error
	if t.evidence, err = unpack(run.Evidence); err != nil {
		return t, err
	}
	if t.evidence == nil {
		if run.CompletionTime != nil && run.Report != nil {
			// Of a run that is over, what was judged last is left.
			if err := json.Unmarshal(run.Report.Raw, &t.last); err != nil {
				return t, fmt.Errorf("reading the report: %w", err)
			}
		}
		return t, nil
	}
	if err := t.evidence.Run.Check(t.plan()); err != nil {
		t.evidence = nil
		return t, problem(EvidenceUnreadable, "the evidence is not valid: %s", err)
	}
	t.last = t.evidence.Run.Last
	return t, nil
}

// Due is when it is to be looked at again.
func (t *Trial) Due() time.Time {
	if t.evidence == nil {
		return t.Run.StartTime.Time
	}
	next := t.evidence.At.Add(t.Interval())
	if t.Run.Deadline.Time.Before(next) {
		return t.Run.Deadline.Time
	}
	return next
}

// Wait is how long nothing is to be done after a step.
func (t *Trial) Wait(now time.Time) time.Duration {
	return max(time.Second, min(t.Interval(), t.Run.Deadline.Sub(now)))
}

// Interval between two looks.
func (t *Trial) Interval() time.Duration { return span(t.Spec.Schedule.Interval) }

// Gathering says whether evidence is gathered already.
func (t *Trial) Gathering() bool { return t.evidence != nil }

// Done says whether it is over.
func (t *Trial) Done() bool { return t.Run.CompletionTime != nil }

// Last is what was judged last; its verdict is empty if nothing was.
func (t *Trial) Last() judge.Judgement { return t.last }

func (t *Trial) key() types.NamespacedName {
	return types.NamespacedName{Namespace: t.Namespace, Name: t.Run.Service.Name}
}

// Step takes the trial as far as it comes now.
func (t *Trial) Step(m Moment) {
	if t.Done() {
		return
	}
	if m.Known {
		t.proceed(m)
	} else {
		t.say("Waiting until the controller has read the Knative Services of the cluster")
	}
	if !t.Done() && !m.Now.Before(t.Run.Deadline.Time) {
		t.expire(m.Now)
	}
}

func (t *Trial) proceed(m Moment) {
	if t.Run.Canary.Name == "" && !t.find(m) {
		return
	}
	if reason, why := t.superseded(m.Service); reason != "" {
		t.Supersede(m.Now, reason, why)
		return
	}
	if t.evidence == nil {
		t.gather(m)
		return
	}
	t.look(m)
}

// find freezes what is compared as soon as that can be said.
func (t *Trial) find(m Moment) bool {
	waited := m.Now.Sub(t.Run.StartTime.Time)
	target, p := Choose(t.Run.Service.Name, m.Service, t.Spec.Canary, t.Spec.Baseline)
	coming := m.Service != nil && (!m.Service.Settled || !m.Service.Effective)
	switch {
	case p == nil && coming && waited < unsettled:
		t.say("Waiting until Service %q has settled: the current split may not be the one that was requested", t.Run.Service.Name)
		return false
	case p == nil:
		t.Run.Service.UID = m.Service.UID
		t.Run.Canary = object(target.Canary)
		baseline := object(target.Baseline)
		t.Run.Baseline, t.Run.Split = &baseline, m.Service.Split()
		return true
	case p.Reason == SameRevision || !coming && waited >= patience:
		t.End(m.Now, verdict.Error, "Nothing can be judged: "+p.Message, p.Reason)
	default:
		t.say("Waiting: %s", p.Message)
	}
	if m.Service != nil {
		t.Run.Service.UID = m.Service.UID
	}
	return false
}

func object(r Revision) v1alpha1.GateObject { return v1alpha1.GateObject{Name: r.Name, UID: r.UID} }

// Supersede ends a trial of what is not in force any more. That is nobody's error, and
// what was found until then is no verdict.
func (t *Trial) Supersede(now time.Time, reason, why string) {
	t.End(now, verdict.Superseded, "The run was superseded: "+why, reason)
}

// superseded is why what was begun with is there no more; empty if it is.
func (t *Trial) superseded(s *Service) (reason, why string) {
	switch {
	case s == nil:
		return ServiceGone, fmt.Sprintf("Service %q no longer exists", t.Run.Service.Name)
	case s.UID != t.Run.Service.UID:
		return ServiceGone, fmt.Sprintf("Service %q was deleted and created again", t.Run.Service.Name)
	}
	for _, o := range []v1alpha1.GateObject{t.Run.Canary, value(t.Run.Baseline)} {
		if _, ok := s.revision(o.UID); !ok {
			return RevisionGone, fmt.Sprintf("Revision %q no longer exists", o.Name)
		}
	}
	if !s.Effective {
		return "", "" // what comes of it is not known yet
	}
	if s.splits(t.Run.Split) {
		return "", ""
	}
	return SplitChanged, fmt.Sprintf("the traffic went to %s when the run began, and now goes to %s", described(t.Run.Split), described(s.Split()))
}

// gather begins with what is counted now.
func (t *Trial) gather(m Moment) {
	from, ok := m.Counts.Snapshot(t.key())
	figures, too := m.Counts.Figure(t.key())
	if !ok || !too {
		t.say("Waiting until the pods of Service %q are scraped", t.Run.Service.Name)
		return
	}
	// What was read last may have been before the run, and so what it will be compared with.
	if waited := m.Now.Sub(t.Run.StartTime.Time); waited < unsettled && !t.readSince(figures, waited) {
		t.say("Waiting until the pods of Service %q are scraped again", t.Run.Service.Name)
		return
	}
	e := &evidence{At: m.Now, From: from, Overdue: overdue(figures, from)}
	var known map[string]judge.Counts
	for _, uid := range []types.UID{t.Run.Canary.UID, t.Run.Baseline.UID} {
		r, _ := m.Service.revision(uid)
		e.Sharded = e.Sharded || r.Stateful
	}
	if e.Sharded {
		known = before(from.Before(t.Run.Canary.UID))
	}
	e.Run = judge.Start(m.Now, known)
	e.Run.Remember(past(from.Past(t.Run.Baseline.UID)))
	t.evidence, t.last = e, e.Run.Last
	t.say("Judging %s against %s: no requests have been counted yet", t.Run.Canary.Name, t.Run.Baseline.Name)
	t.save(m.Now)
}

// readSince says whether all pods of both sides were read since then.
func (t *Trial) readSince(f attribution.Figures, ago time.Duration) bool {
	for _, r := range f.Revisions {
		if (r.UID == t.Run.Canary.UID || r.UID == t.Run.Baseline.UID) && r.ScrapeAge != nil && *r.ScrapeAge > ago {
			return false
		}
	}
	return true
}

// overdue are the requests, by Revision, that were begun and not answered within the
// time-out, and whose processes still run. Those whose processes ended are Lost.
func overdue(f attribution.Figures, now attribution.Snapshot) map[types.UID]float64 {
	out := map[types.UID]float64{}
	for _, r := range f.Revisions {
		if r.Unaccounted != nil {
			out[r.UID] = max(0, *r.Unaccounted-now.Revisions()[r.UID].Lost)
		}
	}
	return out
}

// look judges what happened since the last look. If that is nothing, and nothing
// follows from it, the run stays as it is, so that it need not be written.
func (t *Trial) look(m Moment) {
	plan := t.plan()
	if plan.Deadline <= plan.Warmup {
		t.End(m.Now, verdict.Inconclusive, fmt.Sprintf("Too late to judge: the deadline came %s after the first scrape, and the warm-up takes %s", plan.Deadline, plan.Warmup), string(verdict.Timeout))
		return
	}
	delta, ok := m.Counts.Since(t.key(), t.evidence.From)
	figures, too := m.Counts.Figure(t.key())
	if !ok || !too {
		t.say("Waiting until the pods of Service %q are scraped again", t.Run.Service.Name)
		return
	}
	c := counted{service: m.Service, delta: delta, figures: figures, overdue: map[types.UID]float64{}}
	most := maps.Clone(t.evidence.Overdue)
	if most == nil {
		most = map[types.UID]float64{}
	}
	for uid, n := range overdue(figures, delta.To) {
		if c.overdue[uid] = max(0, n-most[uid]); n > most[uid] {
			most[uid] = n
		}
	}
	w := c.window(t.Run.Canary.UID, t.Run.Baseline.UID)
	w.From, w.To = t.evidence.At, m.Now
	was := t.last
	j := m.Look(t.evidence.Run, plan, w)
	lacking := c.lacking(t.Run.Canary.UID, t.Run.Baseline.UID)
	if quiet(w, delta) && lacking == t.evidence.Lacking && j.Verdict == verdict.Running && alike(j, was) {
		t.say("%s", t.progress(was))
		return
	}
	t.last = j
	t.evidence.At, t.evidence.From, t.evidence.Overdue = m.Now, delta.To, most
	t.evidence.LostPods += delta.LostPods
	t.evidence.Lacking, t.evidence.Seen = lacking, c.seen(lacking)
	if j.Verdict == verdict.Running {
		t.say("%s", t.progress(j))
		t.Run.Reasons = reasons(j)
		t.save(m.Now)
		return
	}
	if j.Verdict == verdict.Inconclusive {
		t.End(m.Now, j.Verdict, t.progress(j), t.undecided(j)...)
		return
	}
	t.End(m.Now, j.Verdict, cmp.Or(j.Message, t.progress(j)), reasons(j)...)
}

// plan counts from when evidence began to be gathered.
func (t *Trial) plan() judge.Plan {
	return Plan(t.Spec, t.evidence.Sharded, t.Run.Deadline.Sub(t.evidence.Run.Start))
}

// quiet windows hold nothing.
func quiet(w judge.Window, d attribution.Delta) bool {
	for _, a := range []judge.Arm{w.Canary, w.Baseline} {
		if a.Finished+a.Entered+a.Started+a.Unaccounted+a.Restarts > 0 {
			return false
		}
	}
	return len(w.Shards) == 0 && d.LostPods == 0
}

func alike(a, b judge.Judgement) bool {
	return a.Verdict == b.Verdict && a.Message == b.Message && slices.Equal(a.Reasons, b.Reasons)
}

// expire ends a trial that is undecided, by what is known.
func (t *Trial) expire(now time.Time) {
	if t.evidence == nil {
		t.End(now, verdict.Inconclusive, "Nothing was measured before the deadline: "+t.Run.Message, string(verdict.NoData), string(verdict.Timeout))
		return
	}
	t.End(now, verdict.Inconclusive, "Undecided at the deadline: "+t.progress(t.last), append(t.undecided(t.last), string(verdict.Timeout))...)
}

// undecided is why nothing was decided. That nothing could be measured is more than
// that nothing came.
func (t *Trial) undecided(j judge.Judgement) []string {
	if t.evidence.Lacking == "" {
		return reasons(j)
	}
	return append([]string{string(verdict.NoData), t.evidence.Lacking}, reasons(j)...)
}

// End closes the trial. What is known is kept for the report; what judging would go
// on from is not needed any more.
func (t *Trial) End(now time.Time, v verdict.Verdict, message string, why ...string) {
	if t.Done() {
		return
	}
	t.save(now)
	at := whole(now)
	t.Run.CompletionTime, t.Run.Evidence = &at, nil
	t.Run.Verdict, t.Run.Reasons, t.Run.Message = v, distinct(why), clip(message)
	if t.Spec.DryRun {
		t.Run.Reasons = distinct(append(t.Run.Reasons, string(verdict.DryRun)))
	}
}

// save writes what is known into the run. Evidence that cannot be written ends it.
func (t *Trial) save(now time.Time) {
	if t.evidence == nil {
		return
	}
	report, err := json.Marshal(t.last)
	if err == nil {
		t.Run.Report = &runtime.RawExtension{Raw: report}
		t.Run.Evidence, err = pack(t.evidence)
	}
	if err != nil {
		t.evidence = nil
		t.Fail(now, err)
	}
}

// Fail ends a trial that cannot go on.
func (t *Trial) Fail(now time.Time, err error) {
	reason := EvidenceUnreadable
	if p, ok := err.(*ProblemError); ok { //nolint:errorlint // ours are never wrapped
		reason = p.Reason
	}
	t.End(now, verdict.Error, "The run cannot continue: "+err.Error(), reason)
}
