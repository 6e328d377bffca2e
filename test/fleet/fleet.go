// SPDX-License-Identifier: Apache-2.0

// Package fleet puts Knative Services, sources, gates and entries of the ledger onto a real API server, for tests of
// what shows them to users.
//
// Its invariant: no controller runs, so each object stays as the test wants it, and is what Knative or our controller
// would have written.
package fleet

import (
	"encoding/json"
	"fmt"
	"strings"
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
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
)

// The namespaces of every fleet.
const (
	// System is the controller's.
	System = "knative-cdevents"
	// Shop has the Services.
	Shop = "shop"
	// Clusters has the environments.
	Clusters = "fleet"
)

// Fleet is an API server with the CRDs of Serving and of this project.
type Fleet struct {
	*controlplane.ControlPlane
	Events  *client.Clientset
	Serving versioned.Interface
	Core    kubernetes.Interface
}

// Must returns a function that passes a value on if there is no error, and otherwise ends the test.
func Must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// New installs Serving's CRDs on a control plane and creates the namespaces.
func New(t testing.TB, cp *controlplane.ControlPlane) *Fleet {
	t.Helper()
	if err := cp.InstallServing(t.Context()); err != nil {
		t.Fatal(err)
	}
	f := &Fleet{
		ControlPlane: cp, Events: Must[*client.Clientset](t)(client.New(cp.Config())),
		Serving: Must[*versioned.Clientset](t)(versioned.NewForConfig(cp.Config())), Core: Must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(cp.Config())),
	}
	for _, name := range []string{Shop, Clusters, System} {
		Must[*corev1.Namespace](t)(f.Core.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))
	}
	return f
}

// Broken is a condition of a source that is False.
type Broken struct {
	Type            apis.ConditionType
	Reason, Message string
}

// AddSource adds a source with that sink. All its conditions are True, except those that are broken.
func (f *Fleet) AddSource(t testing.TB, namespace, name, sink string, status v1alpha1.CDEventSourceStatus, broken ...Broken) types.UID {
	t.Helper()
	s := &v1alpha1.CDEventSource{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	s.Spec.Sink.Ref = &duckv1.KReference{APIVersion: "v1", Kind: "Service", Name: sink}
	s = Must[*v1alpha1.CDEventSource](t)(f.Events.CDEventSources(namespace).Create(t.Context(), s, metav1.CreateOptions{}))
	s.Status = status
	s.Status.ObservedGeneration = s.Generation
	manager := s.GetConditionSet().Manage(&s.Status)
	manager.InitializeConditions()
	for _, of := range []apis.ConditionType{
		v1alpha1.SourceConditionSinkProvided, v1alpha1.SourceConditionDeadLetterSinkResolved, v1alpha1.SourceConditionValid,
		v1alpha1.SourceConditionCredentialsReady, v1alpha1.SourceConditionDelivering,
	} {
		manager.MarkTrue(of)
	}
	for _, b := range broken {
		manager.MarkFalse(b.Type, b.Reason, "%s", b.Message)
	}
	if s.Status.IsReady() {
		s.Status.SinkURI = apis.HTTP(sink + "." + namespace + ".svc.cluster.local")
	}
	return Must[*v1alpha1.CDEventSource](t)(f.Events.CDEventSources(namespace).UpdateStatus(t.Context(), s, metav1.UpdateOptions{})).UID
}

// Missing is the condition of a source whose sink does not exist.
func Missing(sink string) Broken {
	return Broken{v1alpha1.SourceConditionSinkProvided, "SinkNotFound", "Service " + sink +
		" in namespace shop (spec.sink.ref) does not exist; create it, or correct the reference. The controller notices when it is created"}
}

// Split sets how the traffic of a Service is divided over its Revisions, the oldest first.
func Split(s *servingv1.Service, percents ...int64) {
	s.Status.Traffic = nil
	for i, percent := range percents {
		if percent > 0 {
			s.Status.Traffic = append(s.Status.Traffic, servingv1.TrafficTarget{RevisionName: revision(s.Name, i), Percent: &percent})
		}
	}
}

func revision(service string, i int) string { return fmt.Sprintf("%s-%05d", service, i+1) }

// AddService adds a Service with so many Revisions as there are shares of the traffic. It is ready unless there is a
// reason.
func (f *Fleet) AddService(t testing.TB, name, reason string, percents ...int64) *servingv1.Service {
	t.Helper()
	s := &servingv1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: Shop, Name: name}}
	s.Spec.Template.Spec.Containers = []corev1.Container{{Image: "example.com/" + name}}
	s = Must[*servingv1.Service](t)(f.Serving.ServingV1().Services(Shop).Create(t.Context(), s, metav1.CreateOptions{}))
	s.Status.ObservedGeneration, s.Status.URL = s.Generation, apis.HTTP(name+".shop.example.com")
	s.Status.LatestCreatedRevisionName = revision(name, max(1, len(percents))-1)
	s.Status.Conditions = duckv1.Conditions{{Type: apis.ConditionReady, Status: corev1.ConditionTrue}}
	if reason != "" {
		s.Status.Conditions[0] = apis.Condition{
			Type: apis.ConditionReady, Status: corev1.ConditionFalse, Reason: reason, Message: fmt.Sprintf("Configuration %q does not have any ready Revision.", name),
		}
	}
	Split(s, percents...)
	return Must[*servingv1.Service](t)(f.Serving.ServingV1().Services(Shop).UpdateStatus(t.Context(), s, metav1.UpdateOptions{}))
}

// AddRevisions adds the Revisions of a Service.
func (f *Fleet) AddRevisions(t testing.TB, service string, n int) {
	t.Helper()
	for i := range n {
		r := &servingv1.Revision{ObjectMeta: metav1.ObjectMeta{Namespace: Shop, Name: revision(service, i), Labels: map[string]string{"serving.knative.dev/service": service}}}
		r.Spec.Containers = []corev1.Container{{Image: fmt.Sprintf("ghcr.io/example/%s:%d", service, i+1)}}
		r = Must[*servingv1.Revision](t)(f.Serving.ServingV1().Revisions(Shop).Create(t.Context(), r, metav1.CreateOptions{}))
		r.Status.Conditions = duckv1.Conditions{{Type: apis.ConditionReady, Status: corev1.ConditionTrue}}
		Must[*servingv1.Revision](t)(f.Serving.ServingV1().Revisions(Shop).UpdateStatus(t.Context(), r, metav1.UpdateOptions{}))
	}
}

// AddGate adds a gate that watches a Service and has that run, and had others before. Without a run, its Service does not
// exist.
func (f *Fleet) AddGate(t testing.TB, name, service string, run *v1alpha1.GateRun, before ...v1alpha1.GatePastRun) {
	t.Helper()
	g := &v1alpha1.CanaryGate{ObjectMeta: metav1.ObjectMeta{Namespace: Shop, Name: name}, Spec: v1alpha1.CanaryGateSpec{Service: service, Watch: true}}
	g = Must[*v1alpha1.CanaryGate](t)(f.Events.CanaryGates(Shop).Create(t.Context(), g, metav1.CreateOptions{}))
	manager := apis.NewLivingConditionSet(v1alpha1.GateValid, v1alpha1.GateServiceFound, v1alpha1.GateMeasured).Manage(&g.Status)
	manager.InitializeConditions()
	manager.MarkTrue(v1alpha1.GateValid)
	manager.MarkTrue(v1alpha1.GateServiceFound)
	manager.MarkTrue(v1alpha1.GateMeasured)
	g.Status.ObservedGeneration, g.Status.Run, g.Status.History = g.Generation, run, before
	if run == nil {
		manager.MarkFalse(v1alpha1.GateServiceFound, "ServiceNotFound", "Knative Service %q does not exist in this namespace", service)
	} else {
		g.Status.Latest = &v1alpha1.GateLatest{Message: run.Message, GateRunSummary: v1alpha1.GateRunSummary{ID: run.ID, StartTime: run.StartTime, Verdict: run.Verdict, Reasons: run.Reasons, Canary: run.Canary.Name}}
	}
	Must[*v1alpha1.CanaryGate](t)(f.Events.CanaryGates(Shop).UpdateStatus(t.Context(), g, metav1.UpdateOptions{}))
}

// Run is a run of gate cart-gate, which began three minutes before now and has seen so many requests of the canary.
func Run(now time.Time, requests int64, handled float64) *v1alpha1.GateRun {
	least := int64(300)
	return &v1alpha1.GateRun{
		ID: "r1", Gate: "cart-gate", Service: v1alpha1.GateObject{Name: "cart"}, Canary: v1alpha1.GateObject{Name: "cart-00002"}, Baseline: &v1alpha1.GateObject{Name: "cart-00001"},
		Split: []v1alpha1.GateShare{{Revision: "cart-00001", Percent: 90}, {Revision: "cart-00002", Percent: 10}}, Effective: &v1alpha1.GateEffective{GatePolicy: v1alpha1.GatePolicy{Minimum: &v1alpha1.GateMinimum{CanaryRequests: &least, BaselineRequests: &least}}},
		StartTime: metav1.NewTime(now.Add(-3 * time.Minute)), Deadline: metav1.NewTime(now.Add(27 * time.Minute)), Verdict: verdict.Running, Reasons: []string{"InsufficientSample", "ExposureMismatch"},
		Message: fmt.Sprintf("Judging cart-00002 against cart-00001: %d requests of the canary, %d of the baseline; at least %d and 0 more are needed", requests, 9*requests, 300-requests),
		Report: &verdict.Judgement{
			Verdict: verdict.Running, Canary: verdict.Samples{Requests: requests, Missing: 300 - requests, Shards: 12}, Baseline: verdict.Samples{Requests: 9 * requests, Shards: 88},
			RequiredShare: Ratio(.1), HandledShare: &handled, ExpectedShare: Ratio(.1), Metrics: []verdict.MetricResult{
				{Name: "ErrorRate", Verdict: verdict.Running, Reason: verdict.InsufficientSample, Canary: Ratio(.05), Baseline: Ratio(.01), Low: Ratio(.02), High: Ratio(.09), EFail: 6.3, EFailLimit: 44, EPass: .2, EPassLimit: 20, Missing: 240},
				{Name: "SlowRequests", Verdict: verdict.Pass, Reason: verdict.Negligible, Canary: Ratio(0), Baseline: Ratio(.002), EFail: .4, EFailLimit: 44, EPass: 31, EPassLimit: 20},
			},
		},
	}
}

// Ratio returns a pointer, as reports have it.
func Ratio(f float64) *float64 { return &f }

// Raw returns a value as a field of any form has it. It panics if the value has no JSON.
func Raw(v any) *runtime.RawExtension {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return &runtime.RawExtension{Raw: raw}
}

// apiVersions are those of the kinds that entries are about.
var apiVersions = map[string]string{"Service": "serving.knative.dev/v1", "Cluster": "cluster.x-k8s.io/v1beta1"}

// Entry returns an entry of the ledger in which the transitions are pending for a source.
func Entry(about v1alpha1.CDEventSubjectSpec, memory any, source types.UID, transitions ...lifecycle.Transition) *v1alpha1.CDEventSubject {
	s := &v1alpha1.CDEventSubject{ObjectMeta: metav1.ObjectMeta{Name: strings.ToLower(about.Kind) + "-" + string(about.UID)}, Spec: about}
	s.Spec.APIVersion = apiVersions[about.Kind]
	if memory != nil {
		s.Status.Memory = string(Raw(memory).Raw)
	}
	for _, tr := range transitions {
		at := metav1.MicroTime{Time: tr.Time}
		s.Status.Journal = append(s.Status.Journal, v1alpha1.JournalEntry{
			Sequence: tr.Sequence, Time: at, Type: string(tr.Type), Transition: *Raw(tr), Recipients: []v1alpha1.Recipient{{Source: source, Profile: "p"}},
		})
		s.Status.Sequence, s.Status.LastEvent, s.Status.LastEventTime = tr.Sequence, string(tr.Type), &at
		s.Status.Pending++
		if s.Status.OldestPending == nil {
			s.Status.OldestPending = &at
		}
	}
	return s
}

// History returns transitions as status.history has them.
func History(all ...v1alpha1.PastTransition) string {
	var out strings.Builder
	for _, p := range all {
		out.Write(Raw(p).Raw)
		out.WriteByte('\n')
	}
	return out.String()
}

// AddEntry puts an entry into the ledger.
func (f *Fleet) AddEntry(t testing.TB, entry *v1alpha1.CDEventSubject) {
	t.Helper()
	Must[*v1alpha1.CDEventSubject](t)(f.Events.CDEventSubjects(System).Create(t.Context(), entry, metav1.CreateOptions{}))
}
