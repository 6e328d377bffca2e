// SPDX-License-Identifier: Apache-2.0

package gaterun_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
	"github.com/knative-cdevents/knative-cdevents/test/stage"
)

// Other clients and releases may write the status too. Evidence that is unusable ends the run, not the
// process.
func TestUnusableEvidenceEndsTheRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ evidence, spec string }{
		{evidence: `{"metrics":{"ErrorRate":{"tests":[null]}}}`},
		{evidence: `{"metrics":{"ErrorRate":{"tests":[{}]}}}`},
		{evidence: `{"metrics":{"ErrorRate":{"tests":[{"odds":{"ratios":[1.5],"logs":[]}}]}}}`},
		{evidence: `{"metrics":{"ErrorRate":{"tests":[{"odds":{"ratios":[1.5,7],"logs":[0,0]}}]}}}`},
		{evidence: `{"shards":{"counts":{"a":null}}}`},
		{evidence: `{"open":{"failed":true}}`},
		{evidence: `{"looks":-99}`},
		{spec: `{"service":"cart","schedule":{"interval":"0s"}}`},
		{spec: `{"service":"cart","metrics":[{"type":"None"}]}`},
	} {
		p := begin(t, true, v1alpha1.CanaryGateSpec{}, 0)
		p.judges = (*judge.Run).Analyze
		p.Serve(stage.Canary, 1, 0)
		p.step()
		if c.spec != "" {
			p.run.Spec.Raw = []byte(c.spec)
		} else {
			whole, run := map[string]json.RawMessage{}, map[string]json.RawMessage{}
			if err := json.Unmarshal(p.run.Evidence.Raw, &whole); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(whole["run"], &run); err != nil {
				t.Fatal(err)
			}
			run["evidence"] = json.RawMessage(c.evidence)
			whole["run"], _ = json.Marshal(run)
			p.run.Evidence.Raw, _ = json.Marshal(whole)
		}
		got, err := gaterun.Resume(t.Context(), cart.Namespace, p.run)
		if err == nil {
			t.Errorf("%s%s was taken", c.evidence, c.spec)
			continue
		}
		got.Fail(p.now, err)
		if got.GateRun.Verdict != verdict.Error || got.GateRun.Reasons[0] != gaterun.EvidenceUnreadable || got.Interval() < time.Second {
			t.Errorf("%s%s: %+v", c.evidence, c.spec, got.GateRun)
		}
	}
}
