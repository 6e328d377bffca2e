// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
	"github.com/knative-cdevents/knative-cdevents/test/fleet"
)

// fleetOf is a cluster with Services in each state that the commands show.
type fleetOf struct {
	*fleet.Fleet
	// sources are the UIDs of the sources, by name.
	sources map[string]types.UID
}

func ago(d time.Duration) time.Time { return noon.Add(-d) }

func micro(d time.Duration) *metav1.MicroTime { return &metav1.MicroTime{Time: ago(d)} }

func newFleet(t *testing.T, cp *controlplane.ControlPlane) *fleetOf {
	t.Helper()
	f := &fleetOf{Fleet: fleet.New(t, cp), sources: map[string]types.UID{}}
	f.addSources(t)
	cart := f.AddService(t, "cart", "", 90, 10)
	books := f.AddService(t, "books", "", 100, 0)
	f.AddService(t, "hooks", "RevisionMissing", 0, 0)
	f.addGates(t)
	f.addLedger(t, cart, books)
	return f
}

func (f *fleetOf) addSources(t *testing.T) {
	t.Helper()
	f.sources["releases"] = f.AddSource(t, fleet.Shop, "releases", "event-display", v1alpha1.CDEventSourceStatus{LastDelivery: micro(12 * time.Second)})
	f.sources["staging"] = f.AddSource(t, fleet.Shop, "staging", "missing", v1alpha1.CDEventSourceStatus{Pending: 2, OldestPending: micro(25 * time.Minute)}, fleet.Missing("missing"))
	f.sources["all"] = f.AddSource(t, fleet.System, "all", "archive", v1alpha1.CDEventSourceStatus{Pending: 1, OldestPending: micro(90 * time.Second), LastDelivery: micro(2 * time.Minute)}, fleet.Broken{
		Type: v1alpha1.SourceConditionDelivering, Reason: "SinkFails", Message: "POST http://archive.knative-cdevents.svc.cluster.local answered 503 Service Unavailable",
	})
}

func span(d time.Duration) *v1alpha1.Duration { return &v1alpha1.Duration{Duration: d} }

func (f *fleetOf) addGates(t *testing.T) {
	t.Helper()
	least := int64(300)
	ended := metav1.NewTime(ago(20 * time.Minute))
	template := &v1alpha1.GateTemplateUse{Name: "strict", Generation: 3, Groups: []string{"minimum", "metrics"}, Replaced: []string{"metrics"}}
	failed := &v1alpha1.GateRun{
		ID: "r0", Gate: "books-gate", Service: v1alpha1.GateObject{Name: "books"}, Canary: v1alpha1.GateObject{Name: "books-00002"}, Baseline: &v1alpha1.GateObject{Name: "books-00001"},
		Effective: &v1alpha1.GateEffective{
			Template: template,
			GatePolicy: v1alpha1.GatePolicy{
				Schedule: &v1alpha1.GateSchedule{Warmup: span(3 * time.Minute), Timeout: span(30 * time.Minute)},
				Minimum:  &v1alpha1.GateMinimum{CanaryRequests: &least, BaselineRequests: &least},
				Metrics:  []v1alpha1.GateMetric{{Name: "ErrorRate"}, {Name: "SlowRequests", Threshold: span(500 * time.Millisecond)}},
			},
		},
		StartTime: metav1.NewTime(ago(25 * time.Minute)), Deadline: metav1.NewTime(noon.Add(5 * time.Minute)), CompletionTime: &ended,
		Verdict: verdict.Fail, Reasons: []string{"RelativeRegression"}, Message: "Judging books-00002 against books-00001: 900 requests of the canary, 2100 of the baseline; ErrorRate: 9 % to 1 %, odds above 1.5 times the baseline's",
		Report: &verdict.Judgement{
			Verdict: verdict.Fail, Canary: verdict.Samples{Requests: 900}, Baseline: verdict.Samples{Requests: 2100}, RequiredShare: fleet.Ratio(.3), HandledShare: fleet.Ratio(.3),
			Metrics: []verdict.MetricResult{{Name: "ErrorRate", Verdict: verdict.Fail, Reason: verdict.RelativeRegression, Canary: fleet.Ratio(.09), Baseline: fleet.Ratio(.01), Low: fleet.Ratio(.06), High: fleet.Ratio(.1), EFail: 3e7, EFailLimit: 44, EPassLimit: 20}},
		},
	}
	f.AddGate(t, "cart-gate", "cart", fleet.Run(noon, 120, .36))
	past := func(id string, v verdict.Verdict, before time.Duration, reasons ...string) v1alpha1.GatePastRun {
		return v1alpha1.GatePastRun{CompletionTime: metav1.NewTime(ago(before)), GateRunSummary: v1alpha1.GateRunSummary{
			ID: id, Canary: "books-00002", Baseline: "books-00001", Verdict: v, Reasons: reasons, StartTime: metav1.NewTime(ago(before)),
		}}
	}
	oldest := past("r-2", verdict.Inconclusive, 50*time.Hour, "InsufficientSample", "Timeout")
	oldest.Service, oldest.Canary = "magazines", "magazines-00004"
	f.AddGate(t, "books-gate", "books", failed,
		past("r0", verdict.Fail, 20*time.Minute, "RelativeRegression"), past("r-1", verdict.Pass, 26*time.Hour), oldest)
	f.AddGate(t, "crat", "crat", nil)
	byTemplate := fleet.Must[*v1alpha1.CanaryGate](t)(f.Events.CanaryGates(fleet.Shop).Get(t.Context(), "books-gate", metav1.GetOptions{}))
	byTemplate.Spec.TemplateRef = &v1alpha1.GateTemplateReference{Name: "strict"}
	byTemplate = fleet.Must[*v1alpha1.CanaryGate](t)(f.Events.CanaryGates(fleet.Shop).Update(t.Context(), byTemplate, metav1.UpdateOptions{}))
	byTemplate.Status.Template, byTemplate.Status.ObservedGeneration = template, byTemplate.Generation
	fleet.Must[*v1alpha1.CanaryGate](t)(f.Events.CanaryGates(fleet.Shop).UpdateStatus(t.Context(), byTemplate, metav1.UpdateOptions{}))
}

// entry returns an entry of the ledger whose transitions are pending for source staging.
func (f *fleetOf) entry(kind, namespace, name string, uid types.UID, memory any, transitions ...lifecycle.Transition) *v1alpha1.CDEventSubject {
	return fleet.Entry(v1alpha1.CDEventSubjectSpec{Kind: kind, Namespace: namespace, Name: name, UID: uid}, memory, f.sources["staging"], transitions...)
}

func (f *fleetOf) addLedger(t *testing.T, cart, books *servingv1.Service) {
	t.Helper()
	first, second := &lifecycle.Revision{Name: "cart-00001"}, &lifecycle.Revision{Name: "cart-00002"}
	shifted := lifecycle.Transition{
		Sequence: 7, Time: ago(3 * time.Minute), Type: lifecycle.TrafficShifted, Revision: second, Previous: first,
		Traffic: []lifecycle.Share{{Revision: "cart-00001", Percent: 90}, {Revision: "cart-00002", Percent: 10}},
	}
	ready := lifecycle.Transition{Sequence: 6, Time: ago(25 * time.Minute), Type: lifecycle.RevisionReady, Revision: second}
	deployed := &lifecycle.TransitionRef{Sequence: 2, Time: ago(26 * time.Hour), Type: lifecycle.Deployed}
	memory := lifecycle.Memory{Sequence: 7, Primary: "cart-00001", Last: deployed, Revisions: map[string]lifecycle.KnownRevision{
		"cart-00001": {Revision: *first, Arrived: deployed}, "cart-00002": {Revision: *second, Arrived: &lifecycle.TransitionRef{Sequence: 7, Time: shifted.Time, Type: shifted.Type}},
	}}
	of := f.entry("Service", "shop", "cart", cart.UID, memory, ready, shifted)
	of.Status.Journal[1].Recipients = append(of.Status.Journal[1].Recipients, v1alpha1.Recipient{Source: f.sources["all"], Profile: "p"})
	of.Status.Pending = 3
	of.Status.Acknowledged = map[types.UID]int64{f.sources["releases"]: 7, f.sources["all"]: 6, f.sources["staging"]: 5}
	of.Status.Dropped = map[string]int64{"Rejected": 1}
	of.Status.History = fleet.History(
		v1alpha1.PastTransition{
			Sequence: 4, Time: *micro(25 * time.Hour), Type: string(lifecycle.IncidentDetected),
			Incident: string(lifecycle.Outage), Reason: "RouteMissing", Revision: "cart-00001",
		},
		v1alpha1.PastTransition{
			Sequence: 5, Time: *micro(24 * time.Hour), Type: string(lifecycle.IncidentResolved),
			Incident: string(lifecycle.Outage), Revision: "cart-00001",
		},
		v1alpha1.PastTransition{
			Sequence: 6, Time: metav1.NewMicroTime(ready.Time), Type: string(ready.Type),
			Revision: "cart-00002",
		},
		v1alpha1.PastTransition{
			Sequence: 7, Time: metav1.NewMicroTime(shifted.Time), Type: string(shifted.Type),
			Revision: "cart-00002", Previous: "cart-00001",
		},
	)

	upgraded := &lifecycle.TransitionRef{Sequence: 4, Time: ago(5 * time.Hour), Type: lifecycle.Upgraded}
	still := f.entry("Service", "shop", "books", books.UID, lifecycle.Memory{Sequence: 4, Primary: "books-00001", Last: upgraded, Revisions: map[string]lifecycle.KnownRevision{
		"books-00001": {Revision: lifecycle.Revision{Name: "books-00001"}, Arrived: upgraded},
	}})
	still.Status.Sequence, still.Status.LastEvent, still.Status.LastEventTime = 4, string(lifecycle.Upgraded), micro(5*time.Hour)
	still.Status.Acknowledged = map[types.UID]int64{f.sources["releases"]: 4}

	gone := f.entry("Service", "shop", "bygone", "u-bygone", lifecycle.Memory{Sequence: 3, Removed: true},
		lifecycle.Transition{Sequence: 3, Time: ago(40 * time.Minute), Type: lifecycle.Removed, Revision: &lifecycle.Revision{Name: "bygone-00001"}})
	gone.Status.Removed = true

	environment := f.entry("Cluster", "fleet", "prod", "u-prod", lifecycle.EnvironmentMemory{Sequence: 2},
		lifecycle.Transition{Sequence: 2, Time: ago(11 * time.Minute), Type: lifecycle.EnvironmentModified, Environment: &lifecycle.EnvironmentDetails{Changed: []string{"version", "pools"}}})

	baseline := &v1alpha1.CDEventBaseline{ObjectMeta: metav1.ObjectMeta{Name: "cluster.cluster.x-k8s.io"}}
	baseline.Status.Conditions = []metav1.Condition{{
		Type: "Readable", Status: metav1.ConditionFalse, Reason: "MayNotRead", LastTransitionTime: metav1.NewTime(ago(time.Hour)),
		Message: "the controller may not read this kind; allow it with the ClusterRoles in config/optional/environments",
	}}
	fleet.Must[*v1alpha1.CDEventBaseline](t)(f.Events.CDEventBaselines(fleet.System).Create(t.Context(), baseline,
		metav1.CreateOptions{}))
	for _, s := range []*v1alpha1.CDEventSubject{of, still, gone, environment} {
		f.AddEntry(t, s)
	}
}

// readOnly returns a kubeconfig of an administrator behind a proxy that refuses, and reports, any request that
// is not a GET.
func (f *fleetOf) readOnly(t *testing.T) string {
	t.Helper()
	config := f.Config()
	target := fleet.Must[*url.URL](t)(url.Parse(config.Host))
	transport := fleet.Must[http.RoundTripper](t)(rest.TransportFor(config))
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: transport, FlushInterval: -1,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("a command sent %s %s", r.Method, r.URL.Path)
			w.WriteHeader(http.StatusTeapot)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return written(t, []byte(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u"}],
		"clusters": [{"name": "c", "cluster": {"server": "`+server.URL+`"}}]}`))
}

func kubeconfig(t *testing.T, cp *controlplane.ControlPlane, user string, groups ...string) string {
	t.Helper()
	return written(t, fleet.Must[[]byte](t)(cp.KubeConfig(user, groups...)))
}

func written(t *testing.T, raw []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
