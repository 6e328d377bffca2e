// SPDX-License-Identifier: Apache-2.0

package customrun

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

var noon = time.Unix(1.8e9, 0)

func parse(t *testing.T, spec string) (*unstructured.Unstructured, *Run) {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(`{"apiVersion":"tekton.dev/v1beta1","kind":"CustomRun","metadata":{"name":"r","namespace":"n","uid":"u"},"spec":`+spec+`}`), &u.Object); err != nil {
		t.Fatal(err)
	}
	r, err := Read(u)
	if err != nil {
		t.Fatal(err)
	}
	return u, r
}

const ref = `"apiVersion":"knative-cdevents.dev/v1alpha1","kind":"CanaryGate"`

func TestOurs(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]bool{
		`{"customRef":{` + ref + `}}`:  true,
		`{"customSpec":{` + ref + `}}`: true,
		// Without a response to the mistake, the CustomRun would wait forever.
		`{"customRef":{"apiVersion":"knative-cdevents.dev/v1","kind":"CanaryGate"}}`:           true,
		`{"customRef":{"apiVersion":"knative-cdevents.dev/v1alpha1","kind":"CanaryGates"}}`:    true,
		`{"customSpec":{"apiVersion":"knative-cdevents.dev/v1alpha1","kind":"CDEventSource"}}`: true,
		`{"customRef":{"apiVersion":"knative-cdevents.dev"}}`:                                  true,
		`{"customRef":{"apiVersion":"knative-cdevents.devil/v1","kind":"CanaryGate"}}`:         false,
		`{"customRef":{"apiVersion":"example.dev/v1","kind":"CanaryGate"}}`:                    false,
		`{}`: false,
	} {
		if u, _ := parse(t, spec); Ours(u) != want {
			t.Errorf("%s: %v", spec, !want)
		}
	}
}

// Each row is a typical mistake in a reference. The message names the correct value.
func TestInvalidReference(t *testing.T) {
	t.Parallel()
	for _, wrong := range []string{
		`{"customRef":{"apiVersion":"knative-cdevents.dev/v1","kind":"CanaryGate","name":"g"}}`,
		`{"customRef":{"apiVersion":"knative-cdevents.dev/v1alpha1","kind":"CanaryGates","name":"g"}}`,
		`{"customRef":{"apiVersion":"knative-cdevents.dev/v1alpha1"}}`,
		`{"customSpec":{"apiVersion":"knative-cdevents.dev/v1beta1","kind":"CanaryGate","spec":{"service":"s"}}}`,
	} {
		_, r := parse(t, wrong)
		if _, p := r.Request(); p == nil || p.Reason != InvalidReference || !strings.Contains(p.Message, `apiVersion "knative-cdevents.dev/v1alpha1" and kind "CanaryGate"`) {
			t.Errorf("%s: %v", wrong, p)
		}
	}
}

// An embedded gate is read as strictly as the API server reads a CanaryGate.
func TestEmbeddedGate(t *testing.T) {
	t.Parallel()
	for spec, wrong := range map[string]string{
		`{"service":"s","dryRun":true,"schedule":{"warmup":"0","timeout":"1.5h"}}`: "",
		`{"service":"s","dryrun":true}`:                                            `unknown field "dryrun"`,
		`{"service":"s","DryRun":true}`:                                            `unknown field "DryRun"`,
		`{"service":"s","schedule":{"Timeout":"1h"}}`:                              `unknown field "schedule.Timeout"`,
		`{"service":"s","schedule":{"timeout":"1d"}}`:                              "is not a duration",
		`{"service":"s","schedule":{"interval":"5s5s"}}`:                           "each of h, m, s and ms at most once",
		`{"service":"s","metrics":[{"type":5}]}`:                                   "cannot unmarshal number",
		`{"service":"s","historyLimit":1,"service":"t"}`:                           `duplicate field "service"`,
		`"s"`: "cannot unmarshal string",
	} {
		// Not as an object, which cannot have a field twice.
		r := &Run{Spec: Spec{CustomSpec: &Embedded{APIVersion: "knative-cdevents.dev/v1alpha1", Kind: "CanaryGate", Spec: []byte(spec)}}}
		_, p := r.Request()
		if wrong == "" && p != nil || wrong != "" && (p == nil || p.Reason != InvalidSpec || !strings.Contains(p.Message, wrong)) {
			t.Errorf("%s: %v, want %q", spec, p, wrong)
		}
	}
}

func TestParamsChangeTheGate(t *testing.T) {
	t.Parallel()
	_, r := parse(t, `{"customRef":{`+ref+`},"params":[{"name":"gate","value":"g"},{"name":"service","value":"s"},{"name":"canary","value":"s-2"},
		{"name":"baseline","value":"s-1"},{"name":"fail-on","value":"Fail, Warn"},{"name":"dry-run","value":"true"},{"name":"min-requests","value":"7"},{"name":"timeout","value":"1h"}]}`)
	request, p := r.Request()
	if p != nil || request.Gate != "g" {
		t.Fatal(request, p)
	}
	gate := &v1alpha1.CanaryGate{Spec: v1alpha1.CanaryGateSpec{Service: "other", Canary: "x"}}
	spec, _, p := request.Spec(t.Context(), gate, nil)
	if p != nil {
		t.Fatal(p)
	}
	if spec.Service != "s" || spec.Canary != "s-2" || spec.Baseline != "s-1" || verdict.List(spec.FailOn) != "Fail, Warn" || !spec.DryRun ||
		*spec.Minimum.CanaryRequests != 7 || *spec.Minimum.BaselineRequests != 7 || spec.Schedule.Timeout.Duration != time.Hour {
		t.Errorf("%+v", spec)
	}
	if gate.Spec.Minimum != nil || gate.Spec.Service != "other" {
		t.Error("the gate itself changed")
	}
	if _, _, p = request.Spec(t.Context(), nil, nil); p == nil || p.Reason != GateNotFound {
		t.Error(p)
	}
	gate.Spec.Suspend = true
	if _, _, p = request.Spec(t.Context(), gate, nil); p == nil || p.Reason != GateSuspended {
		t.Errorf("a run of a suspended gate begins: %v", p)
	}
	if _, r = parse(t, `{"customRef":{`+ref+`,"name":"a"},"params":[{"name":"gate","value":"b"}]}`); true {
		if _, p = r.Request(); p == nil || p.Reason != InvalidParams {
			t.Error("a request with two gates was accepted")
		}
	}
}

func TestTimeoutParam(t *testing.T) {
	t.Parallel()
	for value, wrong := range map[string]string{
		"1.5h": "", "20m0.5s": "",
		"5m5m": "each of h, m, s and ms at most once", ".5h": "use a format such as", "9000000000us": "use a format such as",
		"PT20M": "use a format such as", "0": "longer than 0", "-20m": "longer than 0",
	} {
		_, r := parse(t, `{"customRef":{`+ref+`},"params":[{"name":"timeout","value":"`+value+`"}]}`)
		if _, p := r.Request(); wrong == "" && p != nil || wrong != "" && (p == nil || p.Reason != InvalidParams || !strings.Contains(p.Message, wrong)) {
			t.Errorf("%s: %v, want %q", value, p, wrong)
		}
	}
}

// A Service without a gate is enough, and other references are rejected.
func TestServiceWithoutGate(t *testing.T) {
	t.Parallel()
	_, r := parse(t, `{"customRef":{`+ref+`},"params":[{"name":"service","value":"s"},{"name":"fail-on","value":""}]}`)
	request, p := r.Request()
	if p != nil {
		t.Fatal(p)
	}
	spec, _, p := request.Spec(t.Context(), nil, nil)
	if p != nil || spec.Service != "s" || spec.FailOn != nil || spec.Schedule != nil {
		t.Errorf("%+v, %v", spec, p)
	}
}

func TestOnlyKnownGoodSucceeds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		verdict verdict.Verdict
		failOn  []verdict.Verdict
		dry     bool
		want    corev1.ConditionStatus
		reason  string
	}{
		{verdict.Pass, nil, false, corev1.ConditionTrue, GatePassed},
		{verdict.Warn, nil, false, corev1.ConditionTrue, GatePassedWarns},
		{verdict.Warn, []verdict.Verdict{"Fail", "Warn"}, false, corev1.ConditionFalse, GatePassedWarns},
		{verdict.Fail, nil, false, corev1.ConditionFalse, GateFailed},
		{verdict.Inconclusive, nil, false, corev1.ConditionFalse, GateUndecided},
		{verdict.Inconclusive, []verdict.Verdict{"Fail"}, false, corev1.ConditionTrue, GateUndecided},
		{verdict.Error, nil, false, corev1.ConditionFalse, GateError},
		{verdict.Superseded, nil, false, corev1.ConditionFalse, GateSuperseded},
		// A superseded run was never judged, so it does not succeed, whatever failOn contains.
		{verdict.Superseded, []verdict.Verdict{"Fail"}, false, corev1.ConditionFalse, GateSuperseded},
		{verdict.Superseded, nil, true, corev1.ConditionTrue, GateDryRun},
		{verdict.Fail, nil, true, corev1.ConditionTrue, GateDryRun},
		{"", nil, false, corev1.ConditionFalse, GateError},
		{"Splendid", []verdict.Verdict{"Fail"}, false, corev1.ConditionFalse, GateError},
	} {
		spec := &v1alpha1.CanaryGateSpec{DryRun: c.dry, GatePolicy: v1alpha1.GatePolicy{FailOn: c.failOn}}
		spec.SetDefaults(context.Background())
		if got, reason := outcome(c.verdict, spec); got != c.want || reason != c.reason {
			t.Errorf("%s, fails on %s: %s %s", c.verdict, c.failOn, got, reason)
		}
	}
	if got, _ := outcome("Error", &v1alpha1.CanaryGateSpec{}); got != corev1.ConditionFalse {
		t.Error("an Error passed without failOn")
	}
}

func failed() *v1alpha1.GateRun {
	at := metav1.NewTime(noon)
	return &v1alpha1.GateRun{ID: "1", Verdict: verdict.Fail, Reasons: []string{"A", "B"}, CompletionTime: &at, Report: &verdict.Judgement{Verdict: verdict.Fail}}
}

func undecided() *v1alpha1.GateRun {
	run := failed()
	run.Verdict = verdict.Inconclusive
	return run
}

func TestAttempts(t *testing.T) {
	t.Parallel()
	_, r := parse(t, `{"retries":7}`)
	spec := &v1alpha1.CanaryGateSpec{}
	spec.SetDefaults(t.Context())
	for try := range 7 {
		if err := r.Proceed(undecided(), spec, noon); err != nil {
			t.Fatal(err)
		}
		c := r.Status.GetCondition("Succeeded")
		if r.Done() || !c.IsUnknown() || r.Attempt() != try+1 || len(r.Status.Results) != 0 || r.Status.StartTime.IsZero() {
			t.Fatalf("attempt %d: %+v", try, r.Status)
		}
		last := r.Status.RetriesStatus[try]
		if len(last.Results) != 10 || last.CompletionTime == nil || last.ExtraFields == nil || last.RetriesStatus != nil {
			t.Errorf("archived attempt %d: %+v", try, last)
		}
	}
	if r.Status.RetriesStatus[0].ExtraFields != nil {
		t.Error("every attempt keeps its results")
	}
	if err := r.Proceed(undecided(), spec, noon); err != nil || !r.Done() || !r.Status.GetCondition("Succeeded").IsFalse() {
		t.Errorf("%v: %+v", err, r.Status)
	}
}

// A failed canary must not be judged again until it passes by chance.
func TestVerdictIsFinalDespiteRetries(t *testing.T) {
	t.Parallel()
	for v, tries := range map[verdict.Verdict]int{verdict.Fail: 0, verdict.Warn: 0, verdict.Superseded: 0, verdict.Inconclusive: 1, verdict.Error: 1} {
		_, r := parse(t, `{"retries":1}`)
		spec := &v1alpha1.CanaryGateSpec{GatePolicy: v1alpha1.GatePolicy{FailOn: []verdict.Verdict{"Fail", "Warn", "Error", "Inconclusive"}}}
		spec.SetDefaults(t.Context())
		run := failed()
		run.Verdict = v
		if err := r.Proceed(run, spec, noon); err != nil {
			t.Fatal(err)
		}
		c := r.Status.GetCondition("Succeeded")
		if r.Attempt() != tries || r.Done() != (tries == 0) || c.IsFalse() != (tries == 0) {
			t.Errorf("%s: %+v", v, r.Status)
		}
		if tries == 0 && !strings.Contains(c.Message, "is final") {
			t.Errorf("the message of %s does not explain why there is no retry: %s", v, c.Message)
		}
	}
}

func TestResultsAreNotLists(t *testing.T) {
	t.Parallel()
	for _, result := range results(failed()) {
		var list []any
		if json.Unmarshal([]byte(result.Value), &list) == nil {
			t.Errorf("%s is a list: %s", result.Name, result.Value)
		}
	}
	large := failed()
	large.Report.Message = strings.Repeat("y", maxReport)
	if len(report(large.Report)) > maxReport {
		t.Error("the report is too large for a result")
	}
}

func TestTimedOut(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]time.Duration{`{}`: time.Hour, `{"timeout":"90s"}`: 90 * time.Second, `{"timeout":"0s"}`: 0} {
		_, r := parse(t, spec)
		if r.Limit() != want || r.TimedOut(noon) {
			t.Errorf("%s: %s", spec, r.Limit())
		}
		at := metav1.NewTime(noon)
		r.Status.StartTime = &at
		if r.TimedOut(noon.Add(want)) || r.TimedOut(noon.Add(want+time.Second)) != (want > 0) {
			t.Errorf("%s: wrong", spec)
		}
	}
}

// Unknown fields stay unchanged.
func TestWithKeepsTheRest(t *testing.T) {
	t.Parallel()
	u, r := parse(t, `{"customRef":{`+ref+`},"serviceAccountName":"sa"}`)
	out, err := With(u, r.Status)
	if err != nil {
		t.Fatal(err)
	}
	if name, _, _ := unstructured.NestedString(out.Object, "spec", "serviceAccountName"); name != "sa" {
		t.Errorf("%v", out.Object)
	}
	_ = u.Object
}

// Even with many retries, the status stays small enough to be written.
func TestManyRetriesStaySmall(t *testing.T) {
	t.Parallel()
	r := &Run{Spec: Spec{Retries: 100000}}
	long := strings.Repeat("a", 1000)
	for n := range 1000 {
		run := &v1alpha1.GateRun{ID: strconv.Itoa(n), Verdict: "Inconclusive", Message: long, Report: &verdict.Judgement{Message: long + long + long}}
		if err := r.Expire(run, noon); err != nil {
			t.Fatal(err)
		}
	}
	content, err := json.Marshal(r.Status)
	if err != nil || len(content) > 96<<10 || r.Attempt() != 1000 {
		t.Errorf("%d bytes after %d attempts, %v", len(content), r.Attempt(), err)
	}
	if len(r.Status.RetriesStatus) != keptTries || r.Status.Annotations[LeftOut] != "900" {
		t.Errorf("%d attempts are kept, and %q left out", len(r.Status.RetriesStatus), r.Status.Annotations[LeftOut])
	}
	if said := r.Status.GetCondition("Succeeded").Message; !strings.Contains(said, "900 earlier ones are omitted") {
		t.Errorf("the message does not mention them: %s", said)
	}
	if last := r.Status.RetriesStatus[keptTries-1]; len(last.Results) == 0 || last.ExtraFields == nil || last.Conditions[0].Message == "" {
		t.Errorf("the last attempt lost its message: %+v", last)
	}
}

// Attempts that the status leaves out still count: the number of attempts is limited, each keeps its own number when
// the status is written and read, and a verdict is as final as before.
func TestLeftOutAttemptsCount(t *testing.T) {
	t.Parallel()
	spec := &v1alpha1.CanaryGateSpec{}
	spec.SetDefaults(t.Context())
	for _, c := range []struct {
		failsAt int
		tries   int
	}{{1000, 250}, {150, 150}} {
		u, r := parse(t, `{"retries":250}`)
		for n := 0; !r.Done(); n++ {
			run := undecided()
			if n == c.failsAt {
				run = failed()
			}
			if n > 300 || r.Attempt() != n {
				t.Fatalf("attempt %d has number %d", n, r.Attempt())
			}
			if err := r.Proceed(run, spec, noon); err != nil {
				t.Fatal(err)
			}
			written, err := With(u, r.Status)
			if err != nil {
				t.Fatal(err)
			}
			if r, err = Read(written); err != nil || len(r.Unread) > 0 {
				t.Fatal(err, r.Unread)
			}
		}
		if c := r.Status.GetCondition("Succeeded"); !c.IsFalse() || len(r.Status.RetriesStatus) != keptTries {
			t.Errorf("%+v", c)
		}
		if r.Attempt() != c.tries {
			t.Errorf("it ended after %d attempts, want %d", r.Attempt(), c.tries)
		}
	}
}
