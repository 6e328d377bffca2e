package page_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	"knative.dev/serving/pkg/client/clientset/versioned"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
)

const (
	system = "knative-cdevents"
	shop   = "shop"
)

// cluster is a real API server with Services as the controller describes them.
type cluster struct {
	*controlplane.ControlPlane
	events  *client.Clientset
	serving versioned.Interface
	core    kubernetes.Interface
	source  types.UID
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ago(d time.Duration) time.Time { return time.Now().Add(-d) }

func start(t *testing.T) *cluster {
	t.Helper()
	cp := controlplane.Start(t)
	if err := cp.InstallServing(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := &cluster{
		ControlPlane: cp, events: must[*client.Clientset](t)(client.New(cp.Config())), serving: must[*versioned.Clientset](t)(versioned.NewForConfig(cp.Config())),
		core: must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(cp.Config())),
	}
	for _, name := range []string{shop, "fleet", system} {
		must[*corev1.Namespace](t)(c.core.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))
	}
	return c
}

// fill adds a canary that a gate judges, other Services, sources and environments.
func (c *cluster) fill(t *testing.T) {
	t.Helper()
	c.source = c.addSource(t, "releases", "event-display", "", v1alpha1.CDEventSourceStatus{LastDelivery: &metav1.MicroTime{Time: ago(40 * time.Second)}})
	c.addSource(t, "staging", "missing", "SinkNotFound", v1alpha1.CDEventSourceStatus{})
	cart := c.service(t, "cart", "True", "", 90, 10)
	books := c.service(t, "books", "True", "", 0, 100)
	c.service(t, "hooks", "False", "RevisionMissing")
	c.service(t, "search", "True", "", 100)
	c.service(t, "payments", "True", "", 50, 50)
	for i, name := range []string{"cart-00001", "cart-00002"} {
		c.revision(t, "cart", name, i)
	}
	c.gate(t, "cart", Run(120, .36))
	c.ledger(t, cart, "cart", "cart-00002", 3*time.Minute+10*time.Second, 10)
	c.ledger(t, books, "books", "books-00002", 5*time.Hour, 100)
	environment := &v1alpha1.CDEventSubject{
		ObjectMeta: metav1.ObjectMeta{Name: "cluster-u-prod"}, Spec: v1alpha1.CDEventSubjectSpec{APIVersion: "cluster.x-k8s.io/v1beta1", Kind: "Cluster", Namespace: "fleet", Name: "prod", UID: "u-prod"},
	}
	environment.Status.Sequence, environment.Status.LastEvent, environment.Status.LastEventTime = 2, string(lifecycle.EnvironmentModified), &metav1.MicroTime{Time: ago(11 * time.Minute)}
	must[*v1alpha1.CDEventSubject](t)(c.events.CDEventSubjects(system).Create(t.Context(), environment, metav1.CreateOptions{}))
}

func (c *cluster) addSource(t *testing.T, name, sink, reason string, status v1alpha1.CDEventSourceStatus) types.UID {
	t.Helper()
	s := &v1alpha1.CDEventSource{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: name}}
	s.Spec.Sink.Ref = &duckv1.KReference{APIVersion: "v1", Kind: "Service", Name: sink}
	s = must[*v1alpha1.CDEventSource](t)(c.events.CDEventSources(shop).Create(t.Context(), s, metav1.CreateOptions{}))
	s.Status = status
	s.Status.ObservedGeneration = s.Generation
	manager := s.GetConditionSet().Manage(&s.Status)
	manager.InitializeConditions()
	for _, of := range []apis.ConditionType{"SinkProvided", "DeadLetterSinkResolved", "Valid", "CredentialsReady", "Delivering"} {
		manager.MarkTrue(of)
	}
	if s.Status.SinkURI = apis.HTTP(sink + ".shop.svc.cluster.local"); reason != "" {
		s.Status.SinkURI = nil
		manager.MarkFalse("SinkProvided", reason, "Service %s in namespace shop (spec.sink.ref) does not exist; create it, or correct the reference", sink)
	}
	return must[*v1alpha1.CDEventSource](t)(c.events.CDEventSources(shop).UpdateStatus(t.Context(), s, metav1.UpdateOptions{})).UID
}

func split(s *servingv1.Service, percents ...int64) {
	s.Status.Traffic = nil
	for i, percent := range percents {
		if percent > 0 {
			s.Status.Traffic = append(s.Status.Traffic, servingv1.TrafficTarget{RevisionName: fmt.Sprintf("%s-%05d", s.Name, i+1), Percent: &percent})
		}
	}
}

func (c *cluster) service(t *testing.T, name, ready, reason string, percents ...int64) *servingv1.Service {
	t.Helper()
	s := &servingv1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: name}}
	s.Spec.Template.Spec.Containers = []corev1.Container{{Image: "example.com/" + name}}
	s = must[*servingv1.Service](t)(c.serving.ServingV1().Services(shop).Create(t.Context(), s, metav1.CreateOptions{}))
	s.Status.ObservedGeneration, s.Status.URL = s.Generation, apis.HTTP(name+".shop.example.com")
	s.Status.LatestCreatedRevisionName = fmt.Sprintf("%s-%05d", name, max(1, len(percents)))
	s.Status.Conditions = duckv1.Conditions{{Type: "Ready", Status: corev1.ConditionStatus(ready), Reason: reason}}
	if reason != "" {
		s.Status.Conditions[0].Message = fmt.Sprintf("Configuration %q does not have any ready Revision.", name)
	}
	split(s, percents...)
	return must[*servingv1.Service](t)(c.serving.ServingV1().Services(shop).UpdateStatus(t.Context(), s, metav1.UpdateOptions{}))
}

// revision adds a Revision of a Service.
func (c *cluster) revision(t *testing.T, service, name string, i int) {
	t.Helper()
	r := &servingv1.Revision{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: name, Labels: map[string]string{"serving.knative.dev/service": service}}}
	r.Spec.Containers = []corev1.Container{{Image: fmt.Sprintf("ghcr.io/example/%s:%d", service, i+1)}}
	r = must[*servingv1.Revision](t)(c.serving.ServingV1().Revisions(shop).Create(t.Context(), r, metav1.CreateOptions{}))
	r.Status.Conditions = duckv1.Conditions{{Type: "Ready", Status: "True"}}
	must[*servingv1.Revision](t)(c.serving.ServingV1().Revisions(shop).UpdateStatus(t.Context(), r, metav1.UpdateOptions{}))
}

func share(f float64) *float64 { return &f }

// Run is a run of a gate on cart-00002 that has seen so many requests of the canary.
func Run(requests, handled float64) *v1alpha1.GateRun {
	least := int64(300)
	raw, err := json.Marshal(judge.Judgement{
		Verdict: verdict.Running, Canary: judge.Samples{Requests: requests, Missing: 300 - requests}, Baseline: judge.Samples{Requests: 9 * requests},
		RequiredShare: share(.1), HandledShare: &handled, Metrics: []judge.Result{
			{Name: "ErrorRate", Verdict: verdict.Running, Reason: verdict.InsufficientSample, Canary: share(.05), Baseline: share(.01), Low: share(.02), High: share(.09), EFail: 6.3, EFailLimit: 40, EPass: .2, EPassLimit: 20, Missing: 240},
			{Name: "SlowRequests", Verdict: verdict.Pass, Reason: verdict.Negligible, Canary: share(0), Baseline: share(.002), EFail: .4, EFailLimit: 40, EPass: 31, EPassLimit: 20},
		},
	})
	if err != nil {
		panic(err)
	}
	return &v1alpha1.GateRun{
		ID: "r1", Gate: "cart-gate", Service: v1alpha1.GateObject{Name: "cart"}, Canary: v1alpha1.GateObject{Name: "cart-00002"}, Baseline: &v1alpha1.GateObject{Name: "cart-00001"},
		Split: map[string]int64{"cart-00001": 90, "cart-00002": 10}, Minimum: &v1alpha1.GateMinimum{CanaryRequests: &least, BaselineRequests: &least},
		StartTime: metav1.NewTime(ago(3 * time.Minute)), Deadline: metav1.NewTime(ago(-27 * time.Minute)), Verdict: verdict.Running, Reasons: []string{"InsufficientSample", "ExposureMismatch"},
		Message: fmt.Sprintf("Judging cart-00002 against cart-00001: %.0f requests of the canary, %.0f of the baseline; %.0f and 0 more are needed", requests, 9*requests, 300-requests),
		Report:  &runtime.RawExtension{Raw: raw},
	}
}

func (c *cluster) gate(t *testing.T, service string, run *v1alpha1.GateRun) {
	t.Helper()
	g := &v1alpha1.CanaryGate{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: service + "-gate"}, Spec: v1alpha1.CanaryGateSpec{Service: service, Watch: true}}
	g = must[*v1alpha1.CanaryGate](t)(c.events.CanaryGates(shop).Create(t.Context(), g, metav1.CreateOptions{}))
	manager := apis.NewLivingConditionSet(v1alpha1.GateServiceFound, v1alpha1.GateMeasured).Manage(&g.Status)
	manager.InitializeConditions()
	manager.MarkTrue(v1alpha1.GateServiceFound)
	manager.MarkTrue(v1alpha1.GateMeasured)
	g.Status.ObservedGeneration, g.Status.Run = g.Generation, run
	g.Status.Latest = &v1alpha1.GateLatest{ID: run.ID, StartTime: run.StartTime, Verdict: run.Verdict, Reasons: run.Reasons[0], Message: run.Message, Canary: run.Canary.Name}
	must[*v1alpha1.CanaryGate](t)(c.events.CanaryGates(shop).UpdateStatus(t.Context(), g, metav1.UpdateOptions{}))
}

// ledger adds an entry: deployed long ago, then a newer Revision, then a split that is not delivered yet.
func (c *cluster) ledger(t *testing.T, s *servingv1.Service, name, newest string, since time.Duration, percent int64) {
	t.Helper()
	first, second := &lifecycle.Revision{Name: name + "-00001"}, &lifecycle.Revision{Name: newest}
	after := []lifecycle.Share{{Revision: first.Name, Percent: 100 - percent}, {Revision: newest, Percent: percent}}
	last := lifecycle.Transition{Sequence: 4, Time: ago(since), Type: lifecycle.TrafficShifted, Revision: second, Previous: first, Traffic: after}
	if percent == 100 {
		last.Type, last.Traffic = lifecycle.Upgraded, after[1:]
	}
	ready := lifecycle.Transition{Sequence: 3, Time: ago(since + 4*time.Minute), Type: lifecycle.RevisionReady, Revision: second}
	deployed := &lifecycle.TransitionRef{Sequence: 1, Time: ago(since + 23*time.Hour), Type: lifecycle.Deployed}
	memory := lifecycle.Memory{Sequence: 4, Primary: first.Name, Last: deployed, Traffic: last.Traffic, Revisions: map[string]lifecycle.KnownRevision{
		first.Name: {Revision: *first, Arrived: deployed}, newest: {Revision: *second, Arrived: &lifecycle.TransitionRef{Sequence: 4, Time: last.Time, Type: last.Type}},
	}}
	e := &v1alpha1.CDEventSubject{
		ObjectMeta: metav1.ObjectMeta{Name: "service-" + string(s.UID)},
		Spec:       v1alpha1.CDEventSubjectSpec{APIVersion: "serving.knative.dev/v1", Kind: "Service", Namespace: s.Namespace, Name: name, UID: s.UID},
	}
	e.Status.Memory = &runtime.RawExtension{Raw: must[[]byte](t)(json.Marshal(memory))}
	past := func(sequence int64, at time.Time, of lifecycle.Type, traffic ...v1alpha1.PastShare) {
		e.Status.History = append(e.Status.History, v1alpha1.PastTransition{Sequence: sequence, Time: metav1.NewMicroTime(at), Type: string(of), Revision: first.Name, Traffic: traffic, Names: []string{"http://" + name + ".shop.example.com"}})
	}
	if percent < 100 { // the other Service's entry is older than the history
		past(1, deployed.Time, lifecycle.Deployed, v1alpha1.PastShare{Revision: first.Name, Percent: 100})
		past(2, deployed.Time.Add(time.Second), lifecycle.Published)
	}
	for _, tr := range []lifecycle.Transition{ready, last} {
		e.Status.Journal = append(e.Status.Journal, v1alpha1.JournalEntry{
			Sequence: tr.Sequence, Time: metav1.MicroTime{Time: tr.Time}, Type: string(tr.Type), Transition: runtime.RawExtension{Raw: must[[]byte](t)(json.Marshal(tr))},
			Recipients: []v1alpha1.Recipient{{Source: c.source, Profile: "p"}},
		})
	}
	e.Status.Sequence, e.Status.LastEvent, e.Status.LastEventTime, e.Status.Pending = 4, string(last.Type), &metav1.MicroTime{Time: last.Time}, 1
	e.Status.OldestPending, e.Status.Acknowledged = &metav1.MicroTime{Time: last.Time}, map[types.UID]int64{c.source: 3}
	if percent == 100 {
		e.Status.Acknowledged[c.source], e.Status.Pending = 4, 0
	}
	must[*v1alpha1.CDEventSubject](t)(c.events.CDEventSubjects(system).Create(t.Context(), e, metav1.CreateOptions{}))
}

// shift gives the canary of cart another share, and its gate other numbers.
func (c *cluster) shift(ctx context.Context, percent int64, requests, handled float64) error {
	s, err := c.serving.ServingV1().Services(shop).Get(ctx, "cart", metav1.GetOptions{})
	if err != nil {
		return err
	}
	split(s, 100-percent, percent)
	if _, err := c.serving.ServingV1().Services(shop).UpdateStatus(ctx, s, metav1.UpdateOptions{}); err != nil {
		return err
	}
	g, err := c.events.CanaryGates(shop).Get(ctx, "cart-gate", metav1.GetOptions{})
	if err != nil {
		return err
	}
	g.Status.Run = Run(requests, handled)
	_, err = c.events.CanaryGates(shop).UpdateStatus(ctx, g, metav1.UpdateOptions{})
	return err
}
