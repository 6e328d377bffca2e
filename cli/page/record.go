// SPDX-License-Identifier: Apache-2.0

package page

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/cli/reader"
	"github.com/knative-cdevents/knative-cdevents/cli/timeline"
	"github.com/knative-cdevents/knative-cdevents/lifecycle/traffic"
)

// Bounds of what is remembered, of each Service and of each run, and over all.
const (
	maxSplits  = 200
	maxSamples = 720
	maxKept    = 2000
)

// record remembers what the cluster does not: what was seen since the page is open.
type record struct {
	mu      sync.Mutex
	moments map[types.NamespacedName][]timeline.Moment
	samples map[string][]sample
}

// sample is what a gate had found at a time.
type sample struct {
	Time time.Time `json:"time"`
	// Entered and Handled are the shares of the requests that the Route gave the canary, and that it handled.
	Entered *float64 `json:"entered,omitempty"`
	Handled *float64 `json:"handled,omitempty"`
	// Requests that the canary has finished.
	Requests int64 `json:"requests"`
}

func newRecord() *record {
	return &record{moments: map[types.NamespacedName][]timeline.Moment{}, samples: map[string][]sample{}}
}

// change remembers a new split of a Service, and what a gate has found.
func (r *record) change(now time.Time, c reader.Change) {
	if g, is := c.New.(*v1alpha1.CanaryGate); is && g.Status.Run != nil && g.Status.Run.Report != nil {
		r.series(now, g.Status.Run)
		return
	}
	after, is := c.New.(*servingv1.Service)
	before, was := c.Old.(*servingv1.Service)
	if !is || !was {
		return
	}
	split := traffic.Split(after.Status.Traffic)
	if len(split) == 0 || slices.Equal(split, traffic.Split(before.Status.Traffic)) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	of := types.NamespacedName{Namespace: after.Namespace, Name: after.Name}
	if len(r.moments) >= maxKept {
		clear(r.moments)
	}
	r.moments[of] = last(append(r.moments[of], timeline.Moment{
		Time: now, Name: "traffic seen", Text: "seen by this page: traffic is now " + split.String(), Split: split, Outcome: timeline.Plain,
	}), maxSplits)
}

func (r *record) splits(namespace, name string) []timeline.Moment {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.moments[types.NamespacedName{Namespace: namespace, Name: name}])
}

// series adds what a run has found now, if it is new, and returns all that is remembered of the run.
func (r *record) series(now time.Time, run *v1alpha1.GateRun) []sample {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.samples) >= maxKept {
		clear(r.samples)
	}
	j := run.Report
	found := sample{Time: now, Entered: j.RequiredShare, Handled: j.HandledShare, Requests: j.Canary.Requests}
	known := r.samples[run.ID]
	if n := len(known); n == 0 || known[n-1].Requests != found.Requests || !same(known[n-1].Handled, found.Handled) {
		if run.CompletionTime != nil {
			found.Time = run.CompletionTime.Time
		}
		r.samples[run.ID] = last(append(known, found), maxSamples)
	}
	return slices.Clone(r.samples[run.ID])
}

func same(a, b *float64) bool { return a == b || a != nil && b != nil && *a == *b }

func last[T any](of []T, n int) []T { return of[max(0, len(of)-n):] }
