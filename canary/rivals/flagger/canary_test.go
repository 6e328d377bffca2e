// SPDX-License-Identifier: Apache-2.0

package flagger_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/canary/rivals/flagger"
)

// The example of docs/gitbook/tutorials/knative-progressive-delivery.md.
const tutorial = `
apiVersion: flagger.app/v1beta1
kind: Canary
spec:
  provider: knative
  analysis:
    interval: 15s
    threshold: 15
    maxWeight: 50
    stepWeight: 10
    metrics:
    - name: request-success-rate
      thresholdRange: {min: 99}
      interval: 1m
    - name: request-duration
      thresholdRange: {max: 500}
      interval: 1m
    - name: "404s"
      templateRef: {name: not-found}
`

func TestRead(t *testing.T) {
	t.Parallel()
	got, left, err := flagger.Read([]byte(tutorial))
	want := flagger.Analysis{
		Interval: 15 * time.Second, MetricInterval: time.Minute, Threshold: 15, MaxWeight: 50, StepWeight: 10,
		MinSuccessRate: 99, MaxDuration: 500 * time.Millisecond,
	}
	if err != nil || got != want || len(left) != 1 || !strings.HasPrefix(left[0], "404s: ") {
		t.Errorf("%+v, %q, %v", got, left, err)
	}
	steps := strings.NewReplacer("maxWeight: 50", "stepWeights: [1, 5, 50]", "    stepWeight: 10\n", "", "15s", "1s", "threshold: 15", "", "interval: 1m", "").Replace(tutorial)
	got, _, err = flagger.Read([]byte(steps))
	want.MaxWeight, want.StepWeight, want.Interval, want.Threshold = 3, 1, 10*time.Second, 1
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for change, wrong := range map[string]string{
		"analysis:->other:":                 "no spec.analysis",
		"maxWeight: 50->iterations: 3":      "iterations is not supported",
		"maxWeight: 50->maxWeight: 0":       "above 0",
		"interval: 15s->interval: often":    "spec.analysis.interval",
		"interval: 1m->interval: 2m":        "different intervals",
		"request-->response-":               "neither",
		"metrics:->[":                       "reading the Canary",
		"interval: 15s->interval: 15s\n  a": "reading the Canary",
	} {
		from, to, _ := strings.Cut(change, "->")
		n := 1
		if from == "request-" {
			n = -1
		}
		if _, _, err := flagger.Read([]byte(strings.Replace(tutorial, from, to, n))); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %v, want %q", change, err, wrong)
		}
	}
}

// Without a limit on durations, they are not needed.
func TestSuccessRateAlone(t *testing.T) {
	t.Parallel()
	a := flagger.Documented()
	a.MaxDuration = 0
	if !a.Holds(flagger.Window{Requests: 100, Failed: 1}) || a.Holds(flagger.Window{Requests: 100, Failed: 2}) {
		t.Error("the success rate does not decide")
	}
}
