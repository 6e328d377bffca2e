// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// An unusable plan gives an Error with a reason, and never a Pass.
func TestPlansThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*Plan)
		says   string
	}{
		"no alpha":        {func(p *Plan) { p.Alpha = 0 }, "alpha is 0"},
		"no beta":         {func(p *Plan) { p.Beta = 1 }, "beta is 1"},
		"no time":         {func(p *Plan) { p.Warmup = p.Deadline }, "must be time between them"},
		"no kind":         {func(p *Plan) { p.Metrics[0].Kind = "Memory" }, `metric "errors": kind "Memory" is not one of`},
		"no ratio":        {func(p *Plan) { p.Metrics[0].MaxOddsRatio = 1 }, "must be above 1"},
		"ratio is NaN":    {func(p *Plan) { p.Metrics[0].MaxOddsRatio = math.NaN() }, "must be above 1"},
		"limit in %":      {func(p *Plan) { p.Metrics[0].Limit = 5 }, "the limit is 5"},
		"negligible in %": {func(p *Plan) { p.Metrics[0].Negligible = 5 }, "negligible is 5"},
		"no weight":       {func(p *Plan) { p.Metrics[0].Weight = 0 }, "the weight is 0"},
		"the same twice":  {func(p *Plan) { p.Metrics = append(p.Metrics, p.Metrics[0]) }, `two metrics have the name "errors"`},
	} {
		p := errorsOnly()
		tc.change(&p)
		run := Start(epoch, nil)
		got := run.Analyze(p, at(0, arm(100, 0), arm(900, 0)))
		if got.Verdict != verdict.Error || len(got.Reasons) != 1 || got.Reasons[0] != verdict.InvalidSpec || !strings.Contains(got.Message, tc.says) {
			t.Errorf("%s: got %s %v: %s", name, got.Verdict, got.Reasons, got.Message)
		}
		if _, err := json.Marshal(run); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := everything(true).Check(); err != nil {
		t.Errorf("a good plan: %v", err)
	}
}

// A run that was edited or written by another release is refused before it continues.
func TestOpenRequestsThatCannotBe(t *testing.T) {
	t.Parallel()
	for evidence, says := range map[string]string{
		`{"looks":-99}`:            "-99 interim analyses",
		`{"open":{"failed":true}}`: "no reading says so",
		`{"open":{"looks":-1}}`:    "-1 interim analyses",
		`{"open":{"looks":7}}`:     "7 interim analyses",
		`{"open":{"readings":[{"at":1,"open":{"canary":-1}}]}}`:    "less than none",
		`{"open":{"failed":true,"looks":6,"readings":[{"at":1}]}}`: "",
		`{}`: "",
	} {
		run := Start(epoch, nil)
		if err := json.Unmarshal([]byte(evidence), &run.Evidence); err != nil {
			t.Fatal(err)
		}
		err := run.Check(everything(true))
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v", evidence, err)
		}
		// No such run makes it panic.
		run.Analyze(everything(true), at(0, arm(100, 0), arm(900, 0)))
	}
	(&openings{Failed: true}).explain(everything(true), 0)
}

// A metric that is marked as decided without any counts was edited. Analyze survives that too.
func TestDecidedWithoutTests(t *testing.T) {
	t.Parallel()
	const shards = `"canary":900,"baseline":900,"shards":{"counts":{"a":[9,1,0,9,1],"b":[9,1,0,9,1],"c":[9,1,0,9,1],"d":[9,1,0,0,0,0,9,1],"e":[9,1,0,0,0,0,9,1],"f":[9,1,0,0,0,0,9,1],"g":[9,1,0,0,0,0,9,1],"h":[9,1,0,0,0,0,9,1],"i":[9,1,0,0,0,0,9,1],"j":[9,1,0,0,0,0,9,1],"k":[9,1,0,0,0,0,9,1],"l":[9,1,0,0,0,0,9,1]}}`
	for evidence, refused := range map[string]bool{
		`{"metrics":{"errors":{"same":true}}}`:                true,
		`{"metrics":{"errors":{"crossed":true}}}`:             true,
		`{"metrics":{"errors":{"warned":true}}}`:              true,
		`{"metrics":{"errors":{"failed":"AbsoluteLimit"}}}`:   true,
		`{"metrics":{"errors":{"same":true}},` + shards + `}`: true,
		`{"metrics":{"errors":{}},` + shards + `}`:            false,
		`{` + shards + `}`:                                    false,
	} {
		for _, p := range []Plan{errorsOnly(), shardedPlan(), shardedPlan().withLimit(0.1)} {
			p.Warmup = time.Minute
			run := Start(epoch, nil)
			if err := json.Unmarshal([]byte(evidence), &run.Evidence); err != nil {
				t.Fatal(err)
			}
			if err := run.Check(p); (err != nil) != refused {
				t.Errorf("%s: %v", evidence, err)
			}
			// One window in the warm-up, and one when the last analysis of the shards is due.
			run.Analyze(p, at(0, arm(100, 0), arm(900, 0)))
			late := Window{From: epoch.Add(time.Second), To: epoch.Add(p.Deadline), Required: -1}
			if got := run.Analyze(p, late).Verdict; got == verdict.Pass || got == verdict.Warn {
				t.Errorf("%s: %s", evidence, got)
			}
		}
	}
}

// A run keeps evidence only until its verdict, so one with both was edited.
func TestEvidenceWithAVerdictIsRefused(t *testing.T) {
	t.Parallel()
	for _, v := range []verdict.Verdict{verdict.Pass, verdict.Fail, verdict.Inconclusive, ""} {
		run := Start(epoch, nil)
		run.Last.Verdict = v
		if err := run.Check(errorsOnly()); err == nil || !strings.Contains(err.Error(), "its verdict is") {
			t.Errorf("%q: %v", v, err)
		}
	}
}
