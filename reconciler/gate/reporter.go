// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// reportPeriod is how long after its completion a starting process still reports a run,
// and metrics show it.
const reportPeriod = time.Hour

// reporter reports each completed run once.
type reporter struct {
	now      func() time.Time
	services Services
	to       Verdicts

	mu  sync.Mutex
	ids map[string]time.Time
}

func newReporter(now func() time.Time, services Services, to Verdicts) *reporter {
	return &reporter{now: now, services: services, to: to, ids: map[string]time.Time{}}
}

// report reports a completed run, unless it is older than reportPeriod or was reported.
// A run that never found its Service is not reported. It returns false if it is too early.
func (r *reporter) report(namespace string, run *v1alpha1.GateRun) bool {
	if run == nil || run.CompletionTime == nil || run.Service.UID == "" {
		return true
	}
	now, service := r.now(), types.NamespacedName{Namespace: namespace, Name: run.Service.Name}
	if _, known := r.services.Service(service); !known {
		return false // until the Services are known, a report has no recipient
	}
	r.mu.Lock()
	for id, at := range r.ids {
		if now.Sub(at) > 2*reportPeriod {
			delete(r.ids, id)
		}
	}
	_, known := r.ids[run.ID]
	old := now.Sub(run.CompletionTime.Time) > reportPeriod
	if !known && !old {
		r.ids[run.ID] = now
	}
	r.mu.Unlock()
	if !known && !old {
		r.to.Reached(service, run.Service.UID, VerdictOf(run.DeepCopy()))
	}
	return true
}

// forget makes the reporter report everything again, as a new leader must.
func (r *reporter) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.ids)
}
