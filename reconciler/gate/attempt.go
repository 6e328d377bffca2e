package gate

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate/customrun"
)

// Cancelled is the reason of a run that somebody wanted to end.
const Cancelled = "Cancelled"

// proceed changes the status as far as the run comes now, and says when it is to be
// looked at again.
func (w *work) proceed(ctx context.Context) (time.Duration, error) {
	now := w.Now()
	run, err := w.currentRun(ctx, now)
	if w.wrong == nil || w.judged != nil {
		w.now = run.GateRun // what is refused at once is not kept
	}
	switch {
	case w.run.Cancelled():
		run.End(now, verdict.Inconclusive, "Cancelled before a verdict was reached", Cancelled)
		return 0, w.run.Cancel(run.GateRun, run.Last(), now)
	case w.wrong != nil && w.judged == nil:
		run.End(now, verdict.Error, w.wrong.Message, w.wrong.Reason)
		return 0, w.run.Refuse(run.GateRun, w.wrong, now)
	case err != nil:
		run.Fail(now, err)
		return 0, w.run.Proceed(run.GateRun, run.Spec, run.Last(), now)
	case run.Done(): // and the process died before it was told
		return 0, w.run.Proceed(run.GateRun, run.Spec, run.Last(), now)
	case w.run.TimedOut(now):
		limit := w.run.Limit()
		run.End(now, verdict.Inconclusive, fmt.Sprintf("The CustomRun timed out after %s, before a verdict was reached: %s", limit, run.GateRun.Message), string(verdict.Timeout))
		return 0, w.run.Expire(run.GateRun, run.Last(), now)
	}
	if wait := run.Due().Sub(now); wait > 0 && run.Gathering() {
		// The status may be behind what is kept.
		return wait, w.run.Proceed(run.GateRun, run.Spec, run.Last(), now)
	}
	run.Step(w.moment(w.service()))
	if err := w.run.Proceed(run.GateRun, run.Spec, run.Last(), now); err != nil {
		return 0, err
	}
	if !run.Gathering() {
		return min(waiting, run.Interval()), nil
	}
	return run.Wait(now), nil
}

// currentRun returns the run in progress, or a new one. It is never nil, even if the run
// cannot continue, so that there is always something to report.
func (w *work) currentRun(ctx context.Context, now time.Time) (*gaterun.Run, error) {
	namespace, id := w.run.Namespace, fmt.Sprintf("%s-%d", w.run.UID, w.run.Attempt())
	empty := func() *gaterun.Run {
		spec, gate := &v1alpha1.CanaryGateSpec{}, ""
		if w.asked != nil {
			spec.Service, gate = w.asked.Service(w.gate), w.asked.Gate
		}
		spec.SetDefaults(ctx)
		at := metav1.NewTime(now)
		return &gaterun.Run{Namespace: namespace, Spec: spec, GateRun: &v1alpha1.GateRun{
			ID: id, Gate: gate, Service: v1alpha1.GateObject{Name: spec.Service}, StartTime: at, Deadline: at, Verdict: verdict.Running,
		}}
	}
	switch {
	case w.garbled != nil:
		return empty(), w.garbled
	case w.judged != nil && (w.judged.CompletionTime == nil || w.judged.ID == id):
		run, err := gaterun.Resume(ctx, namespace, w.judged)
		return run, err
	case w.judged != nil: // the try before this one
		before, err := gaterun.Resume(ctx, namespace, w.judged)
		if err != nil {
			return empty(), err
		}
		run, err := w.open(ctx, id, w.judged.Gate, before.Spec, now)
		if err != nil {
			return empty(), err
		}
		return run, nil
	case w.wrong != nil:
		return empty(), nil
	}
	spec, wrong := w.asked.Spec(ctx, w.gate)
	if wrong != nil {
		w.wrong = wrong
		return empty(), nil
	}
	run, err := w.open(ctx, id, w.asked.Gate, spec, now)
	if err != nil {
		return empty(), err
	}
	return run, nil
}

func (w *work) open(ctx context.Context, id, gate string, spec *v1alpha1.CanaryGateSpec, now time.Time) (*gaterun.Run, error) {
	run, err := gaterun.Open(ctx, w.run.Namespace, id, spec, now, w.run.Limit())
	if err != nil {
		return nil, fmt.Errorf("beginning a run: %w", err) // a spec that was read can be written
	}
	run.GateRun.Gate = gate
	return run, nil
}

// write writes the status if it has changed.
func (w *work) write(ctx context.Context) error {
	if alike(w.was, w.run.Status) {
		return nil
	}
	changed, err := customrun.With(w.object, w.run.Status)
	if err != nil {
		return err
	}
	_, err = w.Runs.Resource(customrun.Resource).Namespace(w.run.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("writing the status of CustomRun %s/%s: %w", w.run.Namespace, w.run.Name, err)
	}
	return nil
}

// alike says whether two statuses are the same to those who read them: the API server
// puts the fields of what it does not know in another order.
func alike(a, b any) bool {
	plain := func(of any) (out any) {
		raw, err := json.Marshal(of)
		if err != nil || json.Unmarshal(raw, &out) != nil {
			return nil
		}
		return out
	}
	return reflect.DeepEqual(plain(a), plain(b))
}

// tell tells of the runs in a status that was written; false if it is too early for
// one of them.
func (w *work) tell(s customrun.Status) bool {
	all := true
	for _, tried := range append(s.RetriesStatus[:len(s.RetriesStatus):len(s.RetriesStatus)], s) {
		run, err := tried.GateRun()
		if err != nil || run == nil {
			continue // it was said when it was read
		}
		w.Metrics.saw(w.run.Namespace, run)
		all = w.told.tell(w.run.Namespace, run) && all
	}
	return all
}
