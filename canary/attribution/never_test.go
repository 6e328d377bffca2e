// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"testing"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

// If one request makes one call, requests that entered and that no entity started were lost on the way.
// If nothing counts starts, their number is unknown.
func TestNeverStartedRequests(t *testing.T) {
	t.Parallel()
	facts := sharded()
	facts.OneCall = true
	b := newBench(true, facts)
	entered := map[mapping.Key]float64{entry(mapping.EntryHTTP, "200"): 10, entry(mapping.EntryServing, "200"): 10}
	b.read("p1", true, entered)
	if f := b.one(t); f.NeverStarted != nil || !has(f, "", "unaccounted_requests", StartedUnknown) {
		t.Errorf("starts are not counted, but NeverStarted is %v; %+v", f.NeverStarted, f.NoData)
	}
	b.readBoth(handled(5, 0), handled(1, 1))
	if f := b.one(t); f.NeverStarted == nil || *f.NeverStarted != 3 {
		t.Errorf("7 of 10 requests were started, but NeverStarted is %v; %+v", f.NeverStarted, f.NoData)
	}
}
