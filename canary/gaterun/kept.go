// SPDX-License-Identifier: Apache-2.0

package gaterun

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/traffic"
)

// podsUnread is why counts are not known: for some time, no process read some pods.
const podsUnread = "PodsUnread"

// keep adds a window to what stays of the run when it has ended.
func (r *Run) keep(b windowBuilder, w judge.Window) {
	e := r.evidence
	if e.Traffic == nil {
		e.Traffic = &traffic.Record{Start: e.At, Sharded: e.Sharded}
	}
	from := e.At
	if r.Quiet.After(from) {
		from = r.Quiet
	}
	e.Traffic.Add(traffic.Window{
		From: from.Sub(e.Traffic.Start), To: w.To.Sub(e.Traffic.Start),
		Canary: r.side(b, r.GateRun.Canary, w.Canary), Baseline: r.side(b, *r.GateRun.Baseline, w.Baseline),
	})
}

// side returns what one Revision did in a window.
func (r *Run) side(b windowBuilder, of v1alpha1.GateObject, a judge.Arm) traffic.Side {
	tally, kept := b.delta.Revisions[of.UID], r.evidence.Traffic
	out := traffic.Side{Lacks: a.EntryUnknown, Entry: traffic.Counts{Requests: a.Entered, Errors: a.EntryErrors}}
	if b.delta.LostPods > 0 {
		out.Lacks = podsUnread
	}
	for code, n := range a.Codes {
		if code[0] == '4' {
			out.Entry.ClientErrors += n
		}
	}
	buckets, seconds := tally.Durations(false)
	timed(&out.Entry, &kept.Bounds, buckets, seconds)
	if b.stateful(of.UID) {
		by := tally.Handled(true)
		out.Handled = &traffic.Counts{Requests: total(by), Errors: by[mapping.Error] + by[mapping.Timeout]}
		buckets, seconds = tally.Durations(true)
		timed(out.Handled, &kept.HandledBounds, buckets, seconds)
	}
	return out
}

// timed adds durations, unless too many requests have none. Those with other bounds than before are not known.
func timed(to *traffic.Counts, known *[]float64, buckets attribution.Buckets, seconds float64) {
	bounds, counts := traffic.Buckets(buckets)
	if len(*known) == 0 && len(counts) > 0 {
		*known = bounds
	}
	if slices.Equal(*known, bounds) && to.Requests-buckets.Total() <= attribution.MostUnknown*to.Requests {
		to.Buckets, to.Seconds = counts, float64(time.Duration(seconds*float64(time.Second)).Round(time.Millisecond))/1e9
	}
}

// left is what stays of the evidence when the run has ended.
func (r *Run) left() (*runtime.RawExtension, error) {
	if r.evidence == nil || r.evidence.Traffic == nil {
		return nil, nil //nolint:nilnil // nothing was measured
	}
	raw, err := r.evidence.Traffic.Pack()
	return &runtime.RawExtension{Raw: raw}, err //nolint:wrapcheck // the error is complete
}
