// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

func read[T any](t *testing.T, raw string) *T {
	t.Helper()
	out := new(T)
	if err := json.Unmarshal([]byte(raw), out); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return out
}

// What a template says, holds; what it leaves open, the gate says.
func TestTemplateReplacesWholeGroups(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ gate, template, want, groups, replaced string }{
		"nothing": {`"minimum":{"shards":7}`, ``, `"minimum":{"shards":7}`, "", ""},
		"an open group": {
			`"minimum":{"shards":7},"failOn":["Fail"]`, `"limits":{"restarts":0}`,
			`"minimum":{"shards":7},"failOn":["Fail"],"limits":{"restarts":0}`, "limits", "",
		},
		"no part of a group": {
			`"minimum":{"shards":7,"canaryRequests":5}`, `"minimum":{"canaryRequests":900}`, `"minimum":{"canaryRequests":900}`,
			"minimum", "minimum",
		},
		"a group that the gate has by default": {
			`"minimum":{"shards":3,"canaryRequests":300,"baselineRequests":300}`, `"minimum":{"canaryRequests":900}`,
			`"minimum":{"canaryRequests":900}`, "minimum", "",
		},
		"a group in which both agree": {`"score":{"pass":95}`, `"score":{"pass":95,"warn":75}`, `"score":{"pass":95,"warn":75}`, "score", ""},
		"no other metric": {
			`"metrics":[{"type":"ErrorRate"},{"type":"Query","query":"paid"}]`, `"metrics":[{"type":"SlowRequests"}]`,
			`"metrics":[{"type":"SlowRequests"}]`, "metrics", "metrics",
		},
		"single values": {
			`"withoutPast":"Pass","failOn":["Fail","Warn"]`, `"withoutPast":"Warn","failOn":["Fail","Error","Inconclusive"]`,
			`"withoutPast":"Warn","failOn":["Fail","Error","Inconclusive"]`, "withoutPast, failOn", "failOn",
		},
	} {
		const own = `{"service":"cart","canary":"cart-2","watch":true,"dryRun":true,"suspend":true,"historyLimit":3,"templateRef":{"name":"strict"}`
		with := func(policy string) string {
			if policy == "" {
				return own + "}"
			}
			return own + "," + policy + "}"
		}
		gate, template := read[spec](t, with(c.gate)), read[v1alpha1.ClusterCanaryGateTemplate](t, `{"metadata":{"name":"strict","generation":3},"spec":{`+c.template+`}}`)
		before := [...]any{gate.DeepCopy(), template.DeepCopy()}
		got, use := gate.With(t.Context(), template)
		if diff := cmp.Diff(read[spec](t, with(c.want)), got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if use.Name != "strict" || use.Generation != 3 || strings.Join(use.Groups, ", ") != c.groups || strings.Join(use.Replaced, ", ") != c.replaced {
			t.Errorf("%s: %+v", name, use)
		}
		got.SetDefaults(t.Context())
		if diff := cmp.Diff(before, [...]any{gate, template}); diff != "" {
			t.Errorf("%s: the gate or the template changed: %s", name, diff)
		}
	}
}

func TestTemplateHasAllGroupsOfAGate(t *testing.T) {
	t.Parallel()
	p := &v1alpha1.GatePolicy{}
	if len(p.Groups()) != 0 {
		t.Errorf("an empty policy states %q", p.Groups())
	}
	want := []string{"schedule", "minimum", "metrics", "exposure", "withoutPast", "limits", "statistics", "score", "failOn"}
	if got := p.AllGroups(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if p.SetDefaults(t.Context()); !slices.Equal(p.Groups(), want) {
		t.Errorf("with defaults: %q", p.Groups())
	}
}

// A group that is stated is checked with its defaults, and one that cannot be read is said.
func TestTemplateIsValidated(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{}`: "", `{"score":{"pass":80}}`: "", `{"schedule":{"timeout":"1h"}}`: "",
		`{"score":{"pass":70}}`:              "spec.score.warn",
		`{"failOn":["Warn"]}`:                "spec.failOn",
		`{"metrics":[]}`:                     "spec.metrics",
		`{"schedule":{"timeout":"soon"}}`:    "spec.schedule.timeout",
		`{"minimum":{"canaryRequests":"x"}}`: "spec.minimum.canaryRequests",
	} {
		err := read[v1alpha1.ClusterCanaryGateTemplate](t, `{"spec":`+raw+`}`).Validate(t.Context())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestReferenceToATemplate(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{"strict": true, "team-a.strict": true, "": false, "Strict": false, "a/b": false, strings.Repeat("a", 254): false} {
		s := spec{Service: "cart", TemplateRef: &v1alpha1.GateTemplateReference{Name: name}}
		if err := s.Validate(t.Context()); (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "templateRef.name") {
			t.Errorf("%q: %v", name, err)
		}
		if s.Template() != name {
			t.Errorf("%q: %q", name, s.Template())
		}
	}
}

// What a run takes can be read without a template, and without a minimum.
func TestNeeds(t *testing.T) {
	t.Parallel()
	var none *v1alpha1.GateEffective
	for _, e := range []*v1alpha1.GateEffective{none, {}} {
		if canary, baseline := e.Needs(); canary != nil || baseline != nil {
			t.Errorf("%+v", e)
		}
	}
	e := &v1alpha1.GateEffective{GatePolicy: v1alpha1.GatePolicy{
		Minimum: &v1alpha1.GateMinimum{CanaryRequests: ptr(int64(5))}, Schedule: &v1alpha1.GateSchedule{Timeout: span(time.Minute)}, FailOn: []verdict.Verdict{"Fail"},
	}}
	if canary, baseline := e.Needs(); *canary != 5 || baseline != nil {
		t.Errorf("%v, %v", canary, baseline)
	}
}
