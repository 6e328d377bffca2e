// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

func (q *sourceQueue) current() *v1alpha1.CDEventSource {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.source
}

// label names the source in logs and metrics.
func (q *sourceQueue) label() string {
	s := q.current()
	return s.Namespace + "/" + s.Name
}

// report returns when the sink last accepted an event, and what is wrong now.
func (q *sourceQueue) report() (delivered time.Time, problem string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	problem = q.problem
	for _, why := range q.undecided {
		if problem == "" {
			problem = "events are waiting, because it is not known whether they pass the filters: " + why
		}
	}
	return q.delivered, problem
}

func (q *sourceQueue) setProblem(problem string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.problem = problem
}

func (q *sourceQueue) setDelivered(at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.delivered, q.problem = at, ""
}

// setUndecided notes whether the filter could be applied to the next event of an object.
func (q *sourceQueue) setUndecided(key ledger.Key, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if delete(q.undecided, key); err == nil {
		return
	}
	if q.undecided == nil {
		q.undecided = map[ledger.Key]string{}
	}
	q.undecided[key] = err.Error()
}

// NotYet implements Work.
func (q *sourceQueue) NotYet(key ledger.Key) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.retries.wait(key, q.d.Now())
}

// noteFailure counts a failed attempt, and returns the source as it is now. It returns
// false if the source has changed such that the failure says nothing of it.
func (q *sourceQueue) noteFailure(a *attempt) (retry, *v1alpha1.CDEventSource, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if sinkChanged(a.source, q.source) || v1alpha1.UnreadIn(q.source.Unread, "spec") != nil {
		return retry{}, q.source, false
	}
	q.problem = a.outcome.Err.Error()
	return q.retries.failed(a.key, a.pending, a.outcome), q.source, true
}

// pause leaves a sink alone that asks for it. Afterwards it gets one event at first.
func (q *sourceQueue) pause(url string, asked time.Duration) {
	q.mu.Lock()
	q.retries.pause(url, q.d.Now().Add(asked))
	q.mu.Unlock()
	q.ramp.restart()
}

func (q *sourceQueue) pausedFor(url string) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.retries.pausedFor(url, q.d.Now())
}

// forget drops what is known of an object about which nothing is pending.
func (q *sourceQueue) forget(key ledger.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.retries.drop(key)
	if delete(q.undecided, key); len(q.undecided) == 0 {
		q.undecided = nil
	}
}
