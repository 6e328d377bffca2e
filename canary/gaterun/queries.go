// SPDX-License-Identifier: Apache-2.0

package gaterun

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
)

// Reasons why what a query of the operator's returns cannot be judged.
//
//reasons:table CanaryGate/Run
const (
	// QueryUnknown: the operator has no query of that name. Name one that config-canary has.
	QueryUnknown = "QueryUnknown"
	// QueryFailed: Prometheus did not answer the query. Show the message to an operator.
	QueryFailed = "QueryFailed"
	// QueryUnusable: the answer is not a count of requests. Show the message to an operator.
	QueryUnusable = "QueryUnusable"
	// QueryDecreased: a count has become less, so a counter began anew. Change the split, which starts a new run.
	QueryDecreased = "QueryDecreased"
	// QueryChanged: the operator changed the query during the run. Change the split, which starts a new run.
	QueryChanged = "QueryChanged"
)

// Question is a query of the operator's about one Revision.
type Question struct{ Query, Namespace, Service, Revision string }

// Reading is the answer.
type Reading struct {
	// Total and Bad are requests since their counters began.
	Total, Bad float64
	// Version changes when the operator changes the query.
	Version string
	// Reason is why there is no answer; empty if there is one. Detail tells a person.
	Reason, Detail string
}

// queried is what a metric's query has returned so far.
type queried struct {
	Version  string        `json:"version"`
	Canary   judge.Queried `json:"canary"`
	Baseline judge.Queried `json:"baseline"`
	// Spoiled is why the counts cannot be compared with later ones, for ever.
	Spoiled string `json:"spoiled,omitempty"`
}

// Questions returns what the next step needs to know from the operator's queries: nothing as long as it gathers no
// evidence.
func (r *Run) Questions() []Question {
	if r.evidence == nil || r.Done() {
		return nil
	}
	var out []Question
	for _, m := range r.Spec.Metrics {
		if m.Query != "" {
			canary, baseline := r.questions(m)
			out = append(out, canary, baseline)
		}
	}
	return out
}

func (r *Run) questions(m v1alpha1.GateMetric) (canary, baseline Question) {
	q := Question{Query: m.Query, Namespace: r.Namespace, Service: r.GateRun.Service.Name, Revision: r.GateRun.Canary.Name}
	canary = q
	q.Revision = deref(r.GateRun.Baseline).Name
	return canary, q
}

// answers is what the queries returned in a step.
type answers struct {
	// now replaces what the evidence has.
	now map[string]*queried
	// reason is why one of them cannot be judged, and detail tells a person.
	reason, detail string
}

// same reports whether nothing was counted and nothing else is wrong.
func (a answers) same(e *evidence) bool {
	return a.reason == e.QueryLacks && reflect.DeepEqual(a.now, e.Queries)
}

// read fills in what the queries counted in the window.
func (r *Run) read(m Moment, w *judge.Window) answers {
	a := answers{now: maps.Clone(r.evidence.Queries)}
	for _, metric := range r.Spec.Metrics {
		if metric.Query == "" {
			continue
		}
		canary, baseline := r.questions(metric)
		next := queried{}
		if was := a.now[metric.Name]; was != nil {
			next = *was
		}
		c, b := m.Readings[canary], m.Readings[baseline]
		counted, reason, detail := next.advance(c, b)
		if reason != "" && a.reason == "" {
			a.reason, a.detail = reason, fmt.Sprintf("query %q: %s", metric.Query, detail)
		}
		if next != (queried{}) {
			if a.now == nil {
				a.now = map[string]*queried{}
			}
			a.now[metric.Name] = &next
		}
		w.Canary.Query(metric.Name, counted[0])
		w.Baseline.Query(metric.Name, counted[1])
	}
	return a
}

// advance takes new answers, and returns what both sides counted since the last ones. An answer that cannot be used
// moves nothing, so that the next one covers its time too. Counts that have become less never count again.
func (q *queried) advance(c, b Reading) (counted [2]judge.Queried, reason, detail string) {
	unknown := func(reason, detail string) ([2]judge.Queried, string, string) {
		one := judge.Queried{Unknown: reason}
		return [2]judge.Queried{one, one}, reason, detail
	}
	switch {
	case q.Spoiled == QueryDecreased:
		return unknown(q.Spoiled, "a count has become less during the run: a counter began anew, or a pod's series is gone")
	case q.Spoiled != "":
		return unknown(q.Spoiled, "the operator has changed it during the run")
	case c.Version == "" && c.Reason == "" || b.Version == "" && b.Reason == "":
		return unknown(QueryFailed, "it was not asked")
	case c.Reason != "" || b.Reason != "":
		return unknown(cmp.Or(c.Reason, b.Reason), cmp.Or(c.Detail, b.Detail))
	case c.Version != b.Version || q.Version != "" && q.Version != c.Version:
		q.Spoiled = QueryChanged
		return q.advance(c, b)
	case c.Bad > c.Total || b.Bad > b.Total:
		return unknown(QueryUnusable, "it returned more bad requests than requests")
	}
	canary, baseline := judge.Queried{Total: c.Total, Bad: c.Bad}, judge.Queried{Total: b.Total, Bad: b.Bad}
	if q.Version == "" {
		q.Version, q.Canary, q.Baseline = c.Version, canary, baseline
		return counted, "", ""
	}
	counted = [2]judge.Queried{minus(canary, q.Canary), minus(baseline, q.Baseline)}
	for _, n := range counted {
		switch {
		case n.Total < 0 || n.Bad < 0:
			q.Spoiled = QueryDecreased
			return q.advance(c, b)
		case n.Bad > n.Total:
			return unknown(QueryUnusable, "since the last answer, it has more bad requests than requests")
		}
	}
	q.Canary, q.Baseline = canary, baseline
	return counted, "", ""
}

func minus(a, b judge.Queried) judge.Queried {
	return judge.Queried{Total: a.Total - b.Total, Bad: a.Bad - b.Bad}
}
