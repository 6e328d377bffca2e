// SPDX-License-Identifier: Apache-2.0

package flagger_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	serving "knative.dev/serving/pkg/client/clientset/versioned"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/knative-cdevents/knative-cdevents/canary/rivals/flagger"
	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
)

// TestRealFlagger lets Flagger itself decide on the same success rates, check by check: it must come to the same end,
// after as many checks. Its API server and its Prometheus' answers are as in a cluster; what Serving would do, the test
// does.
func TestRealFlagger(t *testing.T) {
	program := os.Getenv("FLAGGER")
	if program == "" {
		t.Skip("it takes minutes, and the program: make compare-rules")
	}
	ctx := t.Context()
	cp := controlplane.Start(t)
	must(t, cp.InstallServing(ctx))
	source, err := exec.CommandContext(ctx, "go", "-C", "../../../test/cluster/parts/flagger", "list", "-m", "-f", "{{.Dir}}", "github.com/fluxcd/flagger").Output()
	must(t, err)
	crds := filepath.Join(strings.TrimSpace(string(source)), "artifacts", "flagger", "crd.yaml")
	_, err = envtest.InstallCRDs(cp.Config(), envtest.CRDInstallOptions{Paths: []string{crds}})
	must(t, err)
	p := &prometheus{asked: map[string]int{}, rates: map[string]func(check int) string{}}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	c := &cluster{T: t, services: serving.NewForConfigOrDie(cp.Config()), dynamic: dynamic.NewForConfigOrDie(cp.Config()), kube: kubernetes.NewForConfigOrDie(cp.Config())}
	c.runFlagger(cp, program, server.URL)

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
		rate := func(check int) string { return rates[min(check, len(rates)-1)] }
		p.set(name, rate)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checks := 0
			want, _ := a.Run(func(_, _ time.Duration) (flagger.Window, bool) {
				w := map[string]flagger.Window{
					good: {Requests: 1e6}, exactly: {Requests: 1e6, Failed: 1e4}, bad: {Requests: 1e6, Failed: 10010}, none: {},
				}[rate(checks)]
				checks++
				return w, true
			})
			c := *c
			c.T = t
			got := c.release(name, a)
			if asked := p.checks(name); got != want || asked != checks {
				t.Errorf("Flagger says %s after %d checks, and its rules here %s after %d", got, asked, want, checks)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// prometheus answers the queries for the success rate of each namespace, one after the other.
type prometheus struct {
	mu    sync.Mutex
	asked map[string]int
	rates map[string]func(int) string
}

func (p *prometheus) set(namespace string, rate func(int) string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rates[namespace] = rate
}

func (p *prometheus) checks(namespace string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[namespace]
}

var ofCanary = regexp.MustCompile(`envoy_cluster_name=~"([^/]+)/canary-00002"`)

func (p *prometheus) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	value := "1" // that it is online
	if of := ofCanary.FindStringSubmatch(r.URL.Query().Get("query")); of != nil {
		value = p.rates[of[1]](p.asked[of[1]])
		p.asked[of[1]]++
	}
	_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[0,%q]}]}}`, value)
}

// cluster is one with Flagger.
type cluster struct {
	*testing.T
	services serving.Interface
	dynamic  dynamic.Interface
	kube     kubernetes.Interface
}

func (c *cluster) runFlagger(cp *controlplane.ControlPlane, program, prometheus string) {
	c.Helper()
	config, err := cp.KubeConfig("flagger", "system:masters")
	must(c.T, err)
	file := filepath.Join(c.TempDir(), "kubeconfig")
	must(c.T, os.WriteFile(file, config, 0o600))
	cmd := exec.CommandContext(c.Context(), program, "-kubeconfig", file, "-mesh-provider", "knative", "-metrics-server", prometheus, "-port", "0", "-log-level", "info") //nolint:gosec // what the developer names
	log, err := os.Create(filepath.Join(c.TempDir(), "log"))
	must(c.T, err)
	cmd.Stdout, cmd.Stderr = log, log
	must(c.T, cmd.Start())
	c.Cleanup(func() {
		_ = cmd.Wait() // the context has ended it
		if said, err := os.ReadFile(log.Name()); c.Failed() {
			c.Logf("Flagger said (%v):\n%s", err, said)
		}
	})
}

var canaries = schema.GroupVersionResource{Group: "flagger.app", Version: "v1beta1", Resource: "canaries"}

// release has Flagger release a second Revision in a namespace, and returns how that ends.
func (c *cluster) release(namespace string, a flagger.Analysis) flagger.Phase {
	c.Helper()
	ctx := c.Context()
	_, err := c.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	must(c.T, err)
	service := &servingv1.Service{ObjectMeta: metav1.ObjectMeta{Name: "canary"}}
	service.Spec.Template.Spec.Containers = []corev1.Container{{Image: "example.com/canary"}}
	_, err = c.services.ServingV1().Services(namespace).Create(ctx, service, metav1.CreateOptions{})
	must(c.T, err)
	c.revision(namespace, "canary-00001")
	_, err = c.dynamic.Resource(canaries).Namespace(namespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
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
	must(c.T, err)
	c.until(namespace, "Initialized")
	c.revision(namespace, "canary-00002")
	return flagger.Phase(c.until(namespace, "Succeeded", "Failed"))
}

// revision makes a Ready Revision the latest one.
func (c *cluster) revision(namespace, name string) {
	c.Helper()
	revisions := c.services.ServingV1().Revisions(namespace)
	r := &servingv1.Revision{ObjectMeta: metav1.ObjectMeta{Name: name}}
	r.Spec.Containers = []corev1.Container{{Image: "example.com/canary"}}
	r, err := revisions.Create(c.Context(), r, metav1.CreateOptions{})
	must(c.T, err)
	r.Status.Status = duckv1.Status{
		ObservedGeneration: r.Generation, Conditions: duckv1.Conditions{{Type: apis.ConditionReady, Status: "True"}},
	}
	_, err = revisions.UpdateStatus(c.Context(), r, metav1.UpdateOptions{})
	must(c.T, err)
	c.follow(namespace, name)
}

// follow brings the traffic of the Service into effect, as Serving does. Latest is the name of its latest Revision; ""
// if that stays.
func (c *cluster) follow(namespace, latest string) {
	c.Helper()
	services := c.services.ServingV1().Services(namespace)
	must(c.T, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		s, err := services.Get(c.Context(), "canary", metav1.GetOptions{})
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
		_, err = services.UpdateStatus(c.Context(), s, metav1.UpdateOptions{})
		return err
	}))
}

// until waits for one of the phases.
func (c *cluster) until(namespace string, phases ...string) string {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), 5*time.Minute)
	defer cancel()
	for {
		c.follow(namespace, "")
		canary, err := c.dynamic.Resource(canaries).Namespace(namespace).Get(ctx, "canary", metav1.GetOptions{})
		must(c.T, err)
		phase, _, err := unstructured.NestedString(canary.Object, "status", "phase")
		must(c.T, err)
		for _, want := range phases {
			if phase == want {
				return phase
			}
		}
		time.Sleep(time.Second)
	}
}
