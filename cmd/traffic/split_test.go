// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
)

// targets reads a Service's traffic from JSON, as users write it.
func targets(t *testing.T, text string) []servingv1.TrafficTarget {
	t.Helper()
	var all []servingv1.TrafficTarget
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestPlan(t *testing.T) {
	t.Parallel()
	const all = `[{"revisionName":"cart-1","percent":100}]`
	const tenth = `[{"revisionName":"cart-1","percent":90},{"revisionName":"cart-2","percent":10}]`
	for name, c := range map[string]struct {
		request
		have string
		// want is the new spec.traffic; empty if it is unchanged. err is part of the error.
		want, err string
		baseline  string
	}{
		"a first step": {
			request{percent: 10, from: []int64{0}},
			all, `[{"revisionName":"cart-1","percent":90},{"revisionName":"cart-2","latestRevision":false,"percent":10}]`, "", "cart-1",
		},
		"a query": {request{from: []int64{0}}, all, "", "", "cart-1"},
		"all traffic": {
			request{baseline: "cart-1", percent: 100, from: []int64{10}},
			tenth, `[{"revisionName":"cart-2","percent":100}]`, "", "cart-1",
		},
		"a rollback":               {request{baseline: "cart-1", from: []int64{10, 50}}, tenth, all, "", "cart-1"},
		"already in effect":        {request{baseline: "cart-1", percent: 10, from: []int64{0}}, tenth, "", "", "cart-1"},
		"nothing to roll back":     {request{baseline: "cart-0", from: []int64{10}}, `[{"revisionName":"cart-3","percent":100}]`, "", "", "cart-0"},
		"not from this percentage": {request{baseline: "cart-1", percent: 50, from: []int64{0, 20}}, tenth, "", "cart-2 has 10 %, but this change is only allowed if it has one of [0 20]", ""},
		"from any percentage": {
			request{baseline: "cart-1", percent: 50},
			tenth, `[{"revisionName":"cart-1","percent":50},{"revisionName":"cart-2","percent":50}]`, "", "cart-1",
		},
		"a third Revision": {
			request{baseline: "cart-1", from: []int64{10}},
			`[{"revisionName":"cart-1","percent":60},{"revisionName":"cart-2","percent":10},{"revisionName":"cart-3","percent":30}]`,
			"", "cart-3 is neither the canary cart-2 nor the baseline cart-1", "",
		},
		"a split, and no baseline": {request{percent: 50}, tenth, "", "no Revision has all of it", ""},
		"a canary that has all":    {request{percent: 50}, `[{"revisionName":"cart-2","percent":100}]`, "", "has all traffic already", ""},
		"unpinned":                 {request{percent: 10}, `[{"latestRevision":true,"percent":100}]`, "", "follows the latest Ready Revision", ""},
		"unpinned in part": {
			request{baseline: "cart-1", percent: 10},
			`[{"revisionName":"cart-1","percent":50},{"latestRevision":true,"percent":50}]`, "", "follows the latest Ready Revision", "",
		},
		"no targets, Serving's default": {request{percent: 10}, `[]`, "", "follows the latest Ready Revision", ""},
		"tags stay": {
			request{baseline: "cart-1", percent: 10},
			`[{"revisionName":"cart-1","percent":100,"tag":"current"},{"revisionName":"cart-2","percent":0,"tag":"candidate"},{"latestRevision":true,"tag":"latest"}]`,
			`[{"revisionName":"cart-1","percent":90,"tag":"current"},{"revisionName":"cart-2","percent":10,"tag":"candidate"},{"latestRevision":true,"tag":"latest"}]`,
			"", "cart-1",
		},
		"tags stay in a rollback": {
			request{baseline: "cart-1"},
			`[{"revisionName":"cart-2","percent":50,"tag":"candidate"},{"revisionName":"cart-1","percent":50}]`,
			`[{"revisionName":"cart-2","tag":"candidate"},{"revisionName":"cart-1","percent":100}]`,
			"", "cart-1",
		},
		"one Revision in two targets": {
			request{baseline: "cart-1", percent: 20},
			`[{"revisionName":"cart-1","percent":30},{"revisionName":"cart-1","percent":70,"tag":"current"}]`,
			`[{"revisionName":"cart-1","percent":80},{"revisionName":"cart-1","tag":"current"},{"revisionName":"cart-2","latestRevision":false,"percent":20}]`,
			"", "cart-1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.canary = "cart-2"
			p, err := c.plan(targets(t, c.have))
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("%v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if p.baseline != c.baseline {
				t.Errorf("the baseline is %q", p.baseline)
			}
			checkTargets(t, c.request, p, c.want)
		})
	}
}

func checkTargets(t *testing.T, r request, p plan, want string) {
	t.Helper()
	if want == "" {
		if p.targets != nil || !maps.Equal(p.want, p.now) {
			t.Errorf("it would write %s for %v", split(t, p.targets), p.want)
		}
		return
	}
	if got := split(t, p.targets); got != split(t, targets(t, want)) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if sum, err := pinned(p.targets); err != nil || !maps.Equal(sum, p.want) || sum[r.canary] != r.percent {
		t.Errorf("%v %v, want %v", sum, err, p.want)
	}
}

func split(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
