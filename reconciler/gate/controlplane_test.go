// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"knative.dev/pkg/apis"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate/customrun"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
	"github.com/knative-cdevents/knative-cdevents/test/stage"
)

const namespace = "default"

// system is the namespace of the controller's own objects.
const system = "kube-system"

// speed is how much faster than real time the clock of a theatre runs.
const speed = 20

// theatre is a cluster with Services, whose pods are simulated.
type theatre struct {
	t      *testing.T
	config *rest.Config
	began  time.Time
	gates  *client.Gates
	runs   dynamic.ResourceInterface
	mu     sync.Mutex
	stages map[types.NamespacedName]*stage.Stage
	told   map[string]string
	// unread says that the Services of the cluster are not known yet.
	unread bool
}

func open(t *testing.T, cp *controlplane.ControlPlane) *theatre {
	t.Helper()
	th := &theatre{t: t, config: cp.Config(), began: time.Now(), stages: map[types.NamespacedName]*stage.Stage{}, told: map[string]string{}}
	ours, err := client.New(cp.Config())
	must(t, err)
	th.gates = ours.CanaryGates(namespace)
	dyn, err := dynamic.NewForConfig(cp.Config())
	must(t, err)
	th.runs = dyn.Resource(customrun.Resource).Namespace(namespace)
	return th
}

// act runs one scene as a subtest.
func (th *theatre) act(name string, f func(t *testing.T)) {
	whole := th.t
	whole.Run(name, func(t *testing.T) {
		th.t = t
		defer func() { th.t = whole }()
		f(t)
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (th *theatre) now() time.Time { return th.began.Add(speed * time.Since(th.began)) }

// fastClock is the clock of a theatre.
type fastClock struct {
	clock.RealClock
	th *theatre
}

func (c fastClock) Now() time.Time { return c.th.now() }

func (c fastClock) NewTicker(d time.Duration) clock.Ticker { return c.RealClock.NewTicker(d / speed) }

// fastReconciler shortens the delays of a reconciler, because work queues use the real clock.
type fastReconciler struct{ controller.Reconciler }

func (r fastReconciler) Reconcile(ctx context.Context, key string) error {
	err := r.Reconciler.Reconcile(ctx, key)
	if requeue, d := controller.IsRequeueKey(err); requeue {
		return controller.NewRequeueAfter(d / speed)
	}
	return err
}

func (th *theatre) service(name string) *stage.Stage {
	s := stage.New(types.NamespacedName{Namespace: namespace, Name: name}, true, th.now)
	for _, revision := range []types.UID{stage.Baseline, stage.Canary} {
		s.Enter(revision, 0, 0) // queue-proxy is scraped too
	}
	th.mu.Lock()
	defer th.mu.Unlock()
	th.stages[s.Key] = s
	return s
}

func (th *theatre) of(key types.NamespacedName) *stage.Stage {
	th.mu.Lock()
	defer th.mu.Unlock()
	return th.stages[key]
}

// know sets whether the Services of the cluster are known.
func (th *theatre) know(known bool) {
	th.mu.Lock()
	defer th.mu.Unlock()
	th.unread = !known
}

func (th *theatre) Service(key types.NamespacedName) (*gaterun.Service, bool) {
	th.mu.Lock()
	unread := th.unread
	th.mu.Unlock()
	if unread {
		return nil, false
	}
	if s := th.of(key); s != nil {
		return s.Service(key)
	}
	return nil, true
}

func (th *theatre) Snapshot(key types.NamespacedName) (attribution.Snapshot, bool) {
	if s := th.of(key); s != nil {
		return s.Snapshot(key)
	}
	return attribution.Snapshot{}, false
}

func (th *theatre) Since(key types.NamespacedName, from attribution.Snapshot) (attribution.Delta, bool) {
	if s := th.of(key); s != nil {
		return s.Since(key, from)
	}
	return attribution.Delta{}, false
}

func (th *theatre) Figure(key types.NamespacedName) (attribution.Figures, bool) {
	if s := th.of(key); s != nil {
		return s.Figure(key)
	}
	return attribution.Figures{}, false
}

func (th *theatre) Reached(key types.NamespacedName, service types.UID, v lifecycle.Verdict) {
	th.mu.Lock()
	defer th.mu.Unlock()
	th.told[v.Run] = strings.Join([]string{key.Name, string(service), string(v.Verdict)}, " ")
}

func (*theatre) IsLeaderFor(key types.NamespacedName) bool {
	return !strings.HasPrefix(key.Name, "elsewhere")
}

// always leads for all Services.
type always struct{}

func (always) IsLeaderFor(types.NamespacedName) bool { return true }

// process runs both controllers until stop is called.
func (th *theatre) process() (stop func()) {
	th.t.Helper()
	ctx, cancel := context.WithCancel(logging.WithLogger(context.Background(), zap.NewNop().Sugar()))
	ours, err := client.New(th.config)
	must(th.t, err)
	meta, err := metadata.NewForConfig(th.config)
	must(th.t, err)
	dyn, err := dynamic.NewForConfig(th.config)
	must(th.t, err)
	presence, err := observer.NewPresence(meta, "")
	must(th.t, err)
	g := gate.New(gate.Options{
		Client: ours, Namespace: system, Runs: dyn, Presence: presence, Services: th, Counts: th, Clock: fastClock{th: th}, Analyze: stage.Analyze,
		Leader: th, Verdicts: th, Stopping: ctx.Done(), Metrics: gate.NewMetrics(th.now, always{}),
	})
	gates := g.Gates(ctx)
	runs := g.CustomRuns(ctx, gates)
	for _, impl := range []*controller.Impl{gates, runs} {
		impl.Reconciler = fastReconciler{impl.Reconciler}
	}
	var wg sync.WaitGroup
	wg.Go(func() { presence.Run(ctx) })
	wg.Go(func() {
		if err := controller.StartAll(ctx, gates, runs); err != nil {
			th.t.Errorf("running the controllers: %v", err)
		}
	})
	return sync.OnceFunc(func() { cancel(); wg.Wait() })
}

// ask creates a CustomRun; spec is JSON.
func (th *theatre) ask(name, spec string) *unstructured.Unstructured {
	th.t.Helper()
	u := &unstructured.Unstructured{}
	must(th.t, json.Unmarshal([]byte(`{"apiVersion":"tekton.dev/v1beta1","kind":"CustomRun","metadata":{"name":"`+name+`"},"spec":`+spec+`}`), &u.Object))
	u, err := th.runs.Create(th.t.Context(), u, metav1.CreateOptions{FieldValidation: "Strict"})
	must(th.t, err)
	return u
}

func embedded(service, more string) string {
	return `{"customSpec":{"apiVersion":"knative-cdevents.dev/v1alpha1","kind":"CanaryGate","spec":{"service":"` + service +
		`","schedule":{"interval":"5s","warmup":"0s","minDuration":"1s"},"minimum":{"canaryRequests":100,"baselineRequests":100}}}` + more + `}`
}

func (th *theatre) read(name string) *customrun.Run {
	th.t.Helper()
	u, err := th.runs.Get(th.t.Context(), name, metav1.GetOptions{})
	must(th.t, err)
	r, err := customrun.Read(u)
	must(th.t, err)
	return r
}

// until waits until a CustomRun meets a condition.
func (th *theatre) until(name string, is func(*customrun.Run) bool) *customrun.Run {
	th.t.Helper()
	var r *customrun.Run
	for range 400 {
		if r = th.read(name); is(r) {
			return r
		}
		time.Sleep(25 * time.Millisecond)
	}
	th.t.Fatalf("%s stays %+v", name, r.Status)
	return nil
}

func (th *theatre) judging(name string) {
	th.t.Helper()
	th.until(name, func(r *customrun.Run) bool { return strings.Contains(message(r), "Judging") })
}

func message(r *customrun.Run) string {
	if c := r.Status.GetCondition(apis.ConditionSucceeded); c != nil {
		return c.Message
	}
	return ""
}

// ends waits for the completion, and checks every result.
func (th *theatre) ends(name string, status corev1.ConditionStatus, reason, verdict, says string) *customrun.Run {
	th.t.Helper()
	r := th.until(name, (*customrun.Run).Done)
	c := r.Status.GetCondition(apis.ConditionSucceeded)
	if c.Status != status || c.Reason != reason || !strings.Contains(c.Message, says) {
		th.t.Errorf("%s ended %s %s: %s; want %s %s: %s", name, c.Status, c.Reason, c.Message, status, reason, says)
	}
	var names []string
	for _, result := range r.Status.Results {
		names = append(names, result.Name)
		if result.Name == "verdict" && result.Value != verdict || strings.HasPrefix(result.Value, "[") {
			th.t.Errorf("%s: result %s is %q, want %q", name, result.Name, result.Value, verdict)
		}
	}
	want := []string{"verdict", "score", "coverage", "reasons", "canary-revision", "baseline-revision", "canary-requests", "baseline-requests", "handled-share", "report"}
	if !slices.Equal(names, want) {
		th.t.Errorf("%s: results %q", name, names)
	}
	return r
}

func (th *theatre) cancel(name string) {
	th.t.Helper()
	_, err := th.runs.Patch(th.t.Context(), name, types.MergePatchType, []byte(`{"spec":{"status":"RunCancelled","statusMessage":"the pipeline was cancelled"}}`), metav1.PatchOptions{})
	must(th.t, err)
}
