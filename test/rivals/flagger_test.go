// SPDX-License-Identifier: Apache-2.0

package rivals

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/canary/rivals/flagger"
)

// TestRealFlagger lets Flagger decide on the same success rates as its rules, check by check: it must come to the same
// end, after as many checks. What Serving would do, the test does.
func TestRealFlagger(t *testing.T) {
	tool := start(t, "flagger", "github.com/fluxcd/flagger", filepath.Join("artifacts", "flagger", "crd.yaml"), "flagger",
		"--mesh-provider", "knative", "--metrics-server", "URL", "--port", "0", "--log-level", "info")
	a := flagger.Analysis{
		Interval: 10 * time.Second, MetricInterval: time.Minute, Threshold: 3, MaxWeight: 30, StepWeight: 10, MinSuccessRate: 99,
	}
	// Many requests, so that the part that failed is exact. NaN is what Prometheus makes of no requests.
	good, exactly, bad, none := "100", "99", "98.999", "NaN"
	for name, rates := range map[string][]string{
		"good":                       {good},
		"exactly-what-it-wants":      {exactly},
		"bad":                        {bad},
		"no-requests":                {none},
		"twice-bad":                  {bad, bad, good},
		"bad-now-and-then":           {bad, good, bad, good, bad},
		"the-last-check-is-the-last": {good, good, bad, bad, bad},
	} {
		tool.set(name, rates...)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checks := 0
			want, _ := a.Run(func(_, _ time.Duration) (flagger.Window, bool) {
				w := map[string]flagger.Window{
					good: {Requests: 1e6}, exactly: {Requests: 1e6, Failed: 1e4}, bad: {Requests: 1e6, Failed: 10010}, none: {},
				}[nth(rates, checks)]
				checks++
				return w, true
			})
			got := tool.in(t).release(name, a)
			if asked := tool.asks(name); got != want || asked != checks {
				t.Errorf("Flagger says %s after %d checks, and its rules here %s after %d", got, asked, want, checks)
			}
		})
	}
}

var canaries = schema.GroupVersionResource{Group: "flagger.app", Version: "v1beta1", Resource: "canaries"}

// release has Flagger release a second Revision in a namespace, and returns how that ends.
func (r *rival) release(namespace string, a flagger.Analysis) flagger.Phase {
	r.Helper()
	ctx := r.Context()
	_, err := r.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	must(r.T, err)
	service := &servingv1.Service{ObjectMeta: metav1.ObjectMeta{Name: "canary"}}
	service.Spec.Template.Spec.Containers = []corev1.Container{{Image: "example.com/canary"}}
	_, err = r.services.ServingV1().Services(namespace).Create(ctx, service, metav1.CreateOptions{})
	must(r.T, err)
	r.revision(namespace, "canary-00001")
	_, err = r.dynamic.Resource(canaries).Namespace(namespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "flagger.app/v1beta1", "kind": "Canary", "metadata": map[string]any{"name": "canary"},
		"spec": map[string]any{
			"provider":  "knative",
			"targetRef": map[string]any{"apiVersion": "serving.knative.dev/v1", "kind": "Service", "name": "canary"},
			"analysis": map[string]any{
				"interval": a.Interval.String(), "threshold": int64(a.Threshold), "maxWeight": int64(a.MaxWeight), "stepWeight": int64(a.StepWeight),
				"metrics": []any{map[string]any{"name": "request-success-rate", "interval": "1m", "thresholdRange": map[string]any{"min": a.MinSuccessRate}}},
			},
		},
	}}, metav1.CreateOptions{})
	must(r.T, err)
	r.until(namespace, "Initialized")
	r.revision(namespace, "canary-00002")
	return flagger.Phase(r.until(namespace, "Succeeded", "Failed"))
}

// revision makes a Ready Revision the latest one.
func (r *rival) revision(namespace, name string) {
	r.Helper()
	revisions := r.services.ServingV1().Revisions(namespace)
	one := &servingv1.Revision{ObjectMeta: metav1.ObjectMeta{Name: name}}
	one.Spec.Containers = []corev1.Container{{Image: "example.com/canary"}}
	one, err := revisions.Create(r.Context(), one, metav1.CreateOptions{})
	must(r.T, err)
	one.Status.Status = duckv1.Status{
		ObservedGeneration: one.Generation, Conditions: duckv1.Conditions{{Type: apis.ConditionReady, Status: "True"}},
	}
	_, err = revisions.UpdateStatus(r.Context(), one, metav1.UpdateOptions{})
	must(r.T, err)
	r.follow(namespace, name)
}

// follow brings the traffic of the Service into effect, as Serving does. Latest is the name of its latest Revision; ""
// if that stays.
func (r *rival) follow(namespace, latest string) {
	r.Helper()
	services := r.services.ServingV1().Services(namespace)
	must(r.T, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		s, err := services.Get(r.Context(), "canary", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if latest != "" {
			s.Status.LatestCreatedRevisionName, s.Status.LatestReadyRevisionName = latest, latest
		}
		s.Status.Traffic = nil
		for _, target := range s.Spec.Traffic {
			newest := target.RevisionName == ""
			if target.LatestRevision = &newest; newest {
				target.RevisionName = s.Status.LatestReadyRevisionName
			}
			s.Status.Traffic = append(s.Status.Traffic, target)
		}
		_, err = services.UpdateStatus(r.Context(), s, metav1.UpdateOptions{})
		return err
	}))
}

// until waits for one of the phases.
func (r *rival) until(namespace string, phases ...string) string {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Minute)
	defer cancel()
	for {
		r.follow(namespace, "")
		canary, err := r.dynamic.Resource(canaries).Namespace(namespace).Get(ctx, "canary", metav1.GetOptions{})
		must(r.T, err)
		phase, _, err := unstructured.NestedString(canary.Object, "status", "phase")
		must(r.T, err)
		for _, want := range phases {
			if phase == want {
				return phase
			}
		}
		time.Sleep(time.Second)
	}
}
