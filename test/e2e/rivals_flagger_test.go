// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/knative-cdevents/knative-cdevents/canary/rivals/flagger"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// analysis is that of a Canary of Flagger, with the metrics that it looks at.
type analysis struct {
	flagger.Analysis
	metrics []string
}

// tutorial is the analysis of Flagger's tutorial for Knative, and tuned what a careful user would make of it: slower
// and in more steps, so that each sees more requests; by comparison with the old Revision; and with a limit for what is
// not found.
var (
	tutorial = analysis{
		flagger.Analysis{
			Interval: 15 * time.Second, MetricInterval: time.Minute, Threshold: 15, MaxWeight: 50, StepWeight: 10,
			MinSuccessRate: 99, MaxDuration: 500 * time.Millisecond,
		},
		[]string{successRate, p99},
	}
	tuned = analysis{
		flagger.Analysis{Interval: time.Minute, MetricInterval: time.Minute, Threshold: 5, MaxWeight: 50, StepWeight: 5},
		[]string{moreErrors, p99, moreMissing},
	}
)

// Metrics of a Canary. Those of Serving count by Revision what queue-proxy sees. As Flagger's own, they have no value
// without requests, and that is a failed check.
const (
	counted  = `kn_serving_invocation_duration_seconds_count{namespace="{{ namespace }}",service="{{ target }}",`
	ofCanary = `revision="{{ route }}"`
	ofOthers = `revision!="{{ route }}"`

	successRate = `{name: success-rate, thresholdRange: {min: 99}, interval: 1m, templateRef: {name: success-rate}}`
	p99         = `{name: duration, thresholdRange: {max: 500}, interval: 1m, templateRef: {name: duration}}`
	moreErrors  = `{name: more-errors, thresholdRange: {max: 1}, interval: 1m, templateRef: {name: more-errors}}`
	moreMissing = `{name: more-missing, thresholdRange: {max: 5}, interval: 1m, templateRef: {name: more-missing}}`
)

// partOf is the percentage of a Revision's requests whose status matches.
func partOf(revision, status string) string {
	all := counted + revision
	return fmt.Sprintf(`100 * (sum(rate(%[1]s,http_response_status_code=~%[2]q}[{{ interval }}])) or vector(0)) / sum(rate(%[1]s}[{{ interval }}]))`, all, status)
}

var queries = map[string]string{
	"success-rate": "100 - " + partOf(ofCanary, "5.."),
	"duration": `1000 * histogram_quantile(0.99, sum(rate(` + strings.Replace(counted, "_count{", "_bucket{", 1) + ofCanary +
		`}[{{ interval }}])) by (le))`,
	"more-errors":  partOf(ofCanary, "5..") + " - " + partOf(ofOthers, "5.."),
	"more-missing": partOf(ofCanary, "4..") + " - " + partOf(ofOthers, "4.."),
}

// canaries are Flagger's.
var canaries = schema.GroupVersionResource{Group: "flagger.app", Version: "v1beta1", Resource: "canaries"}

func (a analysis) contestant(name string) contestant {
	return contestant{name: name, moves: true, prepare: a.create, decided: flaggerDecided}
}

// create creates a Canary, and waits until Flagger has the Service.
func (a analysis) create(s *scene, service string) {
	s.Helper()
	ctx := s.Context()
	prometheus, err := suite.Prometheus.URL()
	s.must(err)
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(queries)) {
		fmt.Fprintf(&b, `
apiVersion: flagger.app/v1beta1
kind: MetricTemplate
metadata: {name: %s}
spec:
  provider: {type: prometheus, address: %q}
  query: %s
---`, name, prometheus, strconv.Quote(queries[name]))
	}
	fmt.Fprintf(&b, `
apiVersion: flagger.app/v1beta1
kind: Canary
metadata: {name: %[1]s}
spec:
  provider: knative
  targetRef: {apiVersion: serving.knative.dev/v1, kind: Service, name: %[1]s}
  analysis:
    interval: %[2]s
    threshold: %[3]d
    maxWeight: %[4]d
    stepWeight: %[5]d
    metrics: [%[6]s]
`, service, a.Interval, a.Threshold, a.MaxWeight, a.StepWeight, strings.Join(a.metrics, ", "))
	s.must(suite.Apply(ctx, s.ns, b.String()))
	s.must(kit.Wait(ctx, 3*time.Minute, "Flagger's initialization", func(ctx context.Context) error {
		phase, why, err := s.phase(ctx, service)
		if err == nil && phase != "Initialized" {
			return kit.NotYet("phase %q, %s", phase, why)
		}
		return err
	}))
}

// phase returns that of a Canary, and Flagger's last warning about it.
func (s *scene) phase(ctx context.Context, service string) (phase, why string, err error) {
	canary, err := suite.Dynamic.Resource(canaries).Namespace(s.ns).Get(ctx, service, metav1.GetOptions{})
	if err != nil {
		return "", "", fmt.Errorf("reading the Canary: %w", err)
	}
	phase, _, err = unstructured.NestedString(canary.Object, "status", "phase")
	if err != nil {
		return "", "", fmt.Errorf("reading the Canary: %w", err)
	}
	events, err := suite.Kube.CoreV1().Events(s.ns).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Canary,type=" + corev1.EventTypeWarning})
	if err != nil {
		return "", "", fmt.Errorf("reading what Flagger says: %w", err)
	}
	var last metav1.Time
	for _, e := range events.Items {
		ending := strings.HasPrefix(e.Message, "Rolling back") || strings.HasPrefix(e.Message, "Canary failed")
		if !ending && !e.LastTimestamp.Before(&last) {
			last, why = e.LastTimestamp, e.Message
		}
	}
	return phase, why, nil
}

func flaggerDecided(ctx context.Context, s *scene, service string) (decision, why string, err error) {
	phase, why, err := s.phase(ctx, service)
	switch phase {
	case "Promoting", "Finalising", "Succeeded":
		return keeps, why, err
	case "Failed":
		return stops, why, err
	}
	return "", fmt.Sprintf("phase %q, %s", phase, why), err
}

// byItsRules is what "kubectl cdevents compare" would say of the tutorial's analysis, of what this canary did.
func (s *scene) byItsRules(revision string, began time.Time) string {
	s.Helper()
	end, at := tutorial.Run(func(from, to time.Duration) (flagger.Window, bool) {
		over := time.Until(began.Add(to))
		if over > tutorial.Interval {
			return flagger.Window{}, false
		}
		time.Sleep(over) // the last check is about now
		w, err := s.window(revision, to-from, began.Add(to))
		s.must(err)
		return w, true
	})
	return fmt.Sprintf("%s after %s", end, at)
}

// window is what a Revision did in a time before another one.
func (s *scene) window(revision string, during time.Duration, until time.Time) (w flagger.Window, err error) {
	series, err := suite.Prometheus.Query(s.Context(), fmt.Sprintf(
		`sum by (le, http_response_status_code) (increase(kn_serving_invocation_duration_seconds_bucket{namespace=%q,revision=%q}[%ds] @ %d))`,
		s.ns, revision, int(during.Seconds()), until.Unix()))
	if err != nil {
		return w, fmt.Errorf("asking what %s did: %w", revision, err)
	}
	upTo := map[float64]float64{}
	for _, one := range series {
		bound, berr := strconv.ParseFloat(one.Metric["le"], 64)
		n, nerr := strconv.ParseFloat(fmt.Sprint(one.Value[1]), 64)
		if berr != nil || nerr != nil {
			return w, fmt.Errorf("%v is not of a histogram", one)
		}
		upTo[bound] += n
		if math.IsInf(bound, 1) && strings.HasPrefix(one.Metric["http_response_status_code"], "5") {
			w.Failed += n
		}
	}
	before := 0.0
	for _, bound := range slices.Sorted(maps.Keys(upTo)) {
		w.Buckets = append(w.Buckets, upTo[bound]-before)
		if before = upTo[bound]; !math.IsInf(bound, 1) {
			w.Bounds = append(w.Bounds, bound)
		}
	}
	w.Requests = before
	return w, nil
}
