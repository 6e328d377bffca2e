// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"encoding/json"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

func TestVerdicts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change               func(*lifecycle.Verdict)
		outcome05, outcome04 string
	}{
		"pass":         {func(v *lifecycle.Verdict) { v.Verdict = "Pass" }, "success", "pass"},
		"warn":         {func(v *lifecycle.Verdict) { v.Verdict = "Warn" }, "success", "pass"},
		"fail":         {func(*lifecycle.Verdict) {}, "failure", "fail"},
		"inconclusive": {func(v *lifecycle.Verdict) { v.Verdict = "Inconclusive" }, "error", "error"},
		"superseded":   {func(v *lifecycle.Verdict) { v.Verdict = "Superseded" }, "cancel", "cancel"},
		"error":        {func(v *lifecycle.Verdict) { v.Verdict = "Error" }, "error", "error"},
		"cancelled":    {func(v *lifecycle.Verdict) { v.Cancelled = true }, "cancel", "cancel"},
	} {
		for version, want := range map[string]string{Version05: c.outcome05, Version04: c.outcome04} {
			tr := transitionOf(t, lifecycle.Judged)
			c.change(tr.Verdict)
			var e struct {
				Subject struct {
					ID      string `json:"id"`
					Type    string `json:"type"`
					Content struct {
						Outcome, Reason string
						TestCase        struct{ ID, Name, Type string }
					} `json:"content"`
				} `json:"subject"`
				CustomData struct{ Gate Gate } `json:"customData"`
			}
			if err := json.Unmarshal(render(t, profile(version), tr).Data(), &e); err != nil {
				t.Fatal(err)
			}
			if got := e.Subject.Content.Outcome; got != want {
				t.Errorf("%s in %s: %s, want %s", name, version, got, want)
			}
			if e.Subject.ID != "testcaserun/shop/cart/"+tr.Verdict.Run || e.Subject.Content.TestCase.ID != "canarygate/shop/cart" ||
				e.Subject.Content.Reason != tr.Verdict.Message {
				t.Errorf("%s in %s: %+v", name, version, e.Subject)
			}
			if g := e.CustomData.Gate; g.Verdict != tr.Verdict.Verdict || g.CanaryRequests != 1224 || len(g.Metrics) != 2 || *g.Metrics[0].Canary != .049 {
				t.Errorf("%s in %s: %+v", name, version, g)
			}
		}
	}
}

func TestInlineGateIsNamedAfterTheService(t *testing.T) {
	t.Parallel()
	tr := transitionOf(t, lifecycle.Judged)
	tr.Verdict.Gate = ""
	var f facts
	f.judged(cart, *tr.Verdict)
	if f.testCase != "canarygate/shop/cart" || f.testCaseName != "canary of cart" {
		t.Errorf("%+v", f)
	}
}

func TestOnlyJudgedHasAVerdict(t *testing.T) {
	t.Parallel()
	tr := transitionOf(t, lifecycle.Upgraded)
	tr.Verdict = transitionOf(t, lifecycle.Judged).Verdict
	if _, err := Render(profile(Version05), cart, tr); err == nil {
		t.Error("rendered an upgrade with a verdict")
	}
	tr = transitionOf(t, lifecycle.Judged)
	tr.Verdict = nil
	if _, err := Render(profile(Version05), cart, tr); err == nil {
		t.Error("rendered Judged without a verdict")
	}
}
