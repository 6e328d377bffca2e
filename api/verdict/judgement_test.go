// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/test/filled"
)

// The JSON of a judgement is part of the API. Fields keep their names, order and forms.
func TestJSONOfAJudgement(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 9, 0, 0, 120000000, time.FixedZone("CET", 3600))
	share, none := .25, 0.
	j := verdict.Judgement{
		Verdict: verdict.Fail, Reasons: []verdict.Reason{verdict.AbsoluteLimit}, Message: "m", From: verdict.TimeOf(at), To: verdict.TimeOf(at.Add(time.Minute)),
		Score: 50, Coverage: 1, Canary: verdict.Samples{Requests: 3e7, Missing: 2}, Baseline: verdict.Samples{Shards: 4, ShardsMissing: 5},
		RequiredShare: &share, HandledShare: &none, ExpectedShare: &share,
		Metrics: []verdict.MetricResult{
			{
				Name: "n", Verdict: verdict.Pass, Reason: verdict.Negligible, DryRun: true, Canary: &none, Baseline: &share, Low: &share, High: &share,
				EFail: 1e15, EFailLimit: 40, EPass: 1e-9, EPassLimit: 20, P: &none, Detail: "d", Missing: 9,
			},
			{Name: "o", Verdict: verdict.Running},
		},
	}
	const want = `{"verdict":"Fail","reasons":["AbsoluteLimit"],"message":"m","from":"2026-11-21T08:00:00.12Z","to":"2026-11-21T08:01:00.12Z",` +
		`"score":50,"coverage":1,"canary":{"requests":30000000,"missing":2},"baseline":{"requests":0,"missing":0,"shards":4,"shardsMissing":5},` +
		`"requiredShare":0.25,"handledShare":0,"expectedShare":0.25,"metrics":[` +
		`{"name":"n","verdict":"Pass","reason":"Negligible","dryRun":true,"canary":0,"baseline":0.25,"low":0.25,"high":0.25,` +
		`"eFail":1000000000000000,"eFailLimit":40,"ePass":1e-9,"ePassLimit":20,"p":0,"detail":"d","missing":9},` +
		`{"name":"o","verdict":"Running","eFail":0,"eFailLimit":0,"ePass":0,"ePassLimit":0}]}`
	raw, err := json.Marshal(j)
	if err != nil || string(raw) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, raw, want)
	}
	const empty = `{"verdict":"","score":0,"coverage":0,"canary":{"requests":0,"missing":0},"baseline":{"requests":0,"missing":0}}`
	if raw, err := json.Marshal(verdict.Judgement{}); err != nil || string(raw) != empty {
		t.Errorf("%v\n%s\nwant\n%s", err, raw, empty)
	}
	var read verdict.Judgement
	if err := json.Unmarshal([]byte(want), &read); err != nil || !equality.Semantic.DeepEqual(j, read) {
		t.Errorf("%v %s", err, cmp.Diff(j, read))
	}
	if err := json.Unmarshal([]byte(`{"from":"yesterday"}`), &read); err == nil {
		t.Error("text that is not a time was read as one")
	}
}

// A copy has all fields, and shares no memory.
func TestCopyOfAJudgement(t *testing.T) {
	t.Parallel()
	if (*verdict.Judgement)(nil).DeepCopy() != nil {
		t.Error("a copy of nothing")
	}
	j := filled.New[verdict.Judgement]()
	out := j.DeepCopy()
	if diff := cmp.Diff(&j, out); diff != "" {
		t.Error(diff)
	}
	pointers := func(of *verdict.Judgement) map[uintptr]bool {
		all := map[uintptr]bool{}
		var walk func(v reflect.Value)
		walk = func(v reflect.Value) {
			switch v.Kind() {
			case reflect.Struct:
				for i := range v.NumField() {
					walk(v.Field(i))
				}
			case reflect.Pointer:
				all[v.Pointer()] = true
			case reflect.Slice:
				all[v.Pointer()] = true
				for i := range v.Len() {
					walk(v.Index(i))
				}
			default:
			}
		}
		walk(reflect.ValueOf(of).Elem())
		return all
	}
	own := pointers(out)
	for p := range pointers(&j) {
		if own[p] {
			t.Error("the copy shares memory")
		}
	}
	if len(own) < 15 {
		t.Errorf("found only %d pointers", len(own))
	}
}

// Each figure is checked: JSON has neither NaN nor infinity.
func TestFiniteFigures(t *testing.T) {
	t.Parallel()
	count := 0
	var walk func(v reflect.Value, whole *verdict.Judgement)
	walk = func(v reflect.Value, whole *verdict.Judgement) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				walk(v.Field(i), whole)
			}
		case reflect.Pointer:
			walk(v.Elem(), whole)
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i), whole)
			}
		case reflect.Float64:
			was := v.Float()
			for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
				if v.SetFloat(f); whole.Finite() {
					t.Errorf("%v in %+v", f, whole)
				}
				if _, err := json.Marshal(whole); err == nil {
					t.Errorf("%v has a JSON form", f)
				}
			}
			v.SetFloat(was)
			count++
		default:
		}
	}
	j := filled.New[verdict.Judgement]()
	walk(reflect.ValueOf(&j).Elem(), &j)
	if !j.Finite() || count != 5+2*9 {
		t.Errorf("checked %d figures of %+v", count, j)
	}
}

func TestSummaryOfAJudgement(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(verdict.Summary{}, (*verdict.Judgement)(nil).Summary()); diff != "" {
		t.Error(diff)
	}
	j := filled.New[verdict.Judgement]()
	want := verdict.Summary{
		Score: j.Score, Coverage: j.Coverage, CanaryRequests: float64(j.Canary.Requests), BaselineRequests: float64(j.Baseline.Requests),
		RequiredShare: j.RequiredShare, HandledShare: j.HandledShare,
	}
	for _, m := range j.Metrics {
		want.Metrics = append(want.Metrics, verdict.MetricSummary{Name: m.Name, Verdict: m.Verdict, Reason: m.Reason, Canary: m.Canary, Baseline: m.Baseline})
	}
	if diff := cmp.Diff(want, j.Summary()); diff != "" {
		t.Error(diff)
	}
}

func TestMissingRequests(t *testing.T) {
	t.Parallel()
	j := verdict.Judgement{Canary: verdict.Samples{Missing: 40}, Baseline: verdict.Samples{Missing: 999}}
	if got := j.MissingRequests(); got != 40 {
		t.Error(got)
	}
	j.Metrics = []verdict.MetricResult{{Missing: 1200}, {Missing: 9000, DryRun: true}, {Missing: 7}}
	if got := j.MissingRequests(); got != 1200 {
		t.Error(got)
	}
}
