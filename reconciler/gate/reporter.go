// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// reportPeriod is how long after its completion a starting process still reports a run whose record is gone,
// and metrics show it.
const reportPeriod = time.Hour

// reporter reports each completed run once.
type reporter struct {
	now      func() time.Time
	services Services
	to       Verdicts

	mu  sync.Mutex
	ids map[string]time.Time
	// since is when this process began to lead.
	since time.Time
}

func newReporter(now func() time.Time, services Services, to Verdicts) *reporter {
	return &reporter{now: now, services: services, to: to, ids: map[string]time.Time{}, since: now()}
}

// report reports a completed run, unless it is older than reportPeriod or was reported.
// A run that never found its Service is not reported. It returns false if it is too early.
func (r *reporter) report(namespace string, run *v1alpha1.GateRun) bool {
	if run != nil && run.CompletionTime != nil && r.now().Sub(run.CompletionTime.Time) > reportPeriod {
		return true
	}
	_, told := r.tell(namespace, run)
	return told
}

// tell reports a completed run, however old it is, unless that was done, and returns when it was: at the zero time if
// there is nothing to report. told is false if it is too early. While Knative Serving is not installed, nothing
// receives reports: tell gives up after reportPeriod.
func (r *reporter) tell(namespace string, run *v1alpha1.GateRun) (at time.Time, told bool) {
	if run == nil || run.CompletionTime == nil || run.Service.UID == "" {
		return time.Time{}, true
	}
	service := types.NamespacedName{Namespace: namespace, Name: run.Service.Name}
	if _, known := r.services.Service(service); !known {
		// Until the Services are known, a report has no recipient.
		return time.Time{}, r.waited(run.CompletionTime.Time) >= reportPeriod
	}
	at, first := r.note(run.ID)
	if first {
		r.to.Reached(service, run.Service.UID, VerdictOf(run.DeepCopy()))
	}
	return at, true
}

// waited returns for how long this process could have reported what ended at a time.
func (r *reporter) waited(end time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return min(r.now().Sub(end), r.now().Sub(r.since))
}

// note returns when a run was reported, and whether that is now.
func (r *reporter) note(id string) (at time.Time, first bool) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, at := range r.ids {
		if now.Sub(at) > 2*reportPeriod {
			delete(r.ids, id)
		}
	}
	if at, known := r.ids[id]; known {
		return at, false
	}
	r.ids[id] = now
	return now, true
}

// forget makes the reporter report everything again, as a new leader must.
func (r *reporter) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.ids)
	r.since = r.now()
}
