package command_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
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

// fleetOf is a cluster with Services in each state that the commands show.
type fleetOf struct {
	cp      *controlplane.ControlPlane
	events  *client.Clientset
	serving versioned.Interface
	core    kubernetes.Interface
	// sources are the UIDs of the sources, by name.
	sources map[string]types.UID
}

const system = "knative-cdevents"

func ago(d time.Duration) time.Time { return noon.Add(-d) }

func micro(d time.Duration) *metav1.MicroTime { return &metav1.MicroTime{Time: ago(d)} }

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newFleet(t *testing.T, cp *controlplane.ControlPlane) *fleetOf {
	t.Helper()
	if err := cp.InstallServing(t.Context()); err != nil {
		t.Fatal(err)
	}
	f := &fleetOf{
		cp: cp, sources: map[string]types.UID{}, events: must[*client.Clientset](t)(client.New(cp.Config())),
		serving: must[*versioned.Clientset](t)(versioned.NewForConfig(cp.Config())), core: must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(cp.Config())),
	}
	for _, name := range []string{"shop", "fleet", system} {
		must[*corev1.Namespace](t)(f.core.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))
	}
	f.addSources(t)
	cart := f.service(t, "cart", "True", "", map[string]int64{"cart-00001": 90, "cart-00002": 10})
	books := f.service(t, "books", "True", "", map[string]int64{"books-00001": 100})
	f.service(t, "hooks", "False", "RevisionMissing", nil)
	f.addGates(t)
	f.addLedger(t, cart, books)
	return f
}

func (f *fleetOf) addSources(t *testing.T) {
	t.Helper()
	for _, s := range []struct {
		namespace, name, sink string
		status                v1alpha1.CDEventSourceStatus
		conditions            duckv1.Conditions
	}{
		{"shop", "releases", "event-display", v1alpha1.CDEventSourceStatus{LastDelivery: micro(12 * time.Second)}, nil},
		{"shop", "staging", "missing", v1alpha1.CDEventSourceStatus{Pending: 2, OldestPending: micro(25 * time.Minute)}, duckv1.Conditions{
			{Type: "SinkProvided", Status: "False", Reason: "SinkNotFound", Message: "Service missing in namespace shop (spec.sink.ref) does not exist; create it, or correct the reference. The controller notices when it is created"},
		}},
		{system, "all", "archive", v1alpha1.CDEventSourceStatus{Pending: 1, OldestPending: micro(90 * time.Second), LastDelivery: micro(2 * time.Minute)}, duckv1.Conditions{
			{Type: "Delivering", Status: "False", Reason: "SinkFails", Message: "POST http://archive.knative-cdevents.svc.cluster.local answered 503 Service Unavailable"},
		}},
	} {
		source := &v1alpha1.CDEventSource{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name}}
		source.Spec.Sink.Ref = &duckv1.KReference{APIVersion: "v1", Kind: "Service", Name: s.sink}
		source = must[*v1alpha1.CDEventSource](t)(f.events.CDEventSources(s.namespace).Create(t.Context(), source, metav1.CreateOptions{}))
		f.sources[s.name] = source.UID
		source.Status = s.status
		source.Status.ObservedGeneration = source.Generation
		manager := source.GetConditionSet().Manage(&source.Status)
		manager.InitializeConditions()
		for _, of := range []apis.ConditionType{"SinkProvided", "DeadLetterSinkResolved", "Valid", "CredentialsReady", "Delivering"} {
			manager.MarkTrue(of)
		}
		for _, c := range s.conditions {
			manager.MarkFalse(c.Type, c.Reason, "%s", c.Message)
		}
		if source.Status.IsReady() {
			source.Status.SinkURI = apis.HTTP(s.sink + "." + s.namespace + ".svc.cluster.local")
		}
		must[*v1alpha1.CDEventSource](t)(f.events.CDEventSources(s.namespace).UpdateStatus(t.Context(), source, metav1.UpdateOptions{}))
	}
}

func (f *fleetOf) service(t *testing.T, name, ready, reason string, split map[string]int64) *servingv1.Service {
	t.Helper()
	s := &servingv1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	s.Spec.Template.Spec.Containers = []corev1.Container{{Image: "example.com/app"}}
	s = must[*servingv1.Service](t)(f.serving.ServingV1().Services("shop").Create(t.Context(), s, metav1.CreateOptions{}))
	s.Status.ObservedGeneration = s.Generation
	s.Status.URL = apis.HTTP(name + ".shop.example.com")
	s.Status.LatestCreatedRevisionName = name + "-00002"
	s.Status.Conditions = duckv1.Conditions{{Type: "Ready", Status: corev1.ConditionStatus(ready), Reason: reason}}
	if ready == "False" {
		s.Status.Conditions[0].Message = `Configuration "hooks" does not have any ready Revision.`
	}
	for revision, percent := range split {
		s.Status.Traffic = append(s.Status.Traffic, servingv1.TrafficTarget{RevisionName: revision, Percent: &percent})
	}
	return must[*servingv1.Service](t)(f.serving.ServingV1().Services("shop").UpdateStatus(t.Context(), s, metav1.UpdateOptions{}))
}

func ratio(f float64) *float64 { return &f }

func report(t *testing.T, j judge.Judgement) *runtime.RawExtension {
	t.Helper()
	return &runtime.RawExtension{Raw: must[[]byte](t)(json.Marshal(j))}
}

func (f *fleetOf) addGates(t *testing.T) {
	t.Helper()
	least := int64(300)
	minimum := &v1alpha1.GateMinimum{CanaryRequests: &least, BaselineRequests: &least}
	running := &v1alpha1.GateRun{
		ID: "r1", Gate: "cart-gate", Service: v1alpha1.GateObject{Name: "cart"}, Canary: v1alpha1.GateObject{Name: "cart-00002"}, Baseline: &v1alpha1.GateObject{Name: "cart-00001"},
		Split: map[string]int64{"cart-00001": 90, "cart-00002": 10}, Minimum: minimum, StartTime: metav1.NewTime(ago(3 * time.Minute)), Deadline: metav1.NewTime(noon.Add(27 * time.Minute)),
		Verdict: verdict.Running, Reasons: []string{"InsufficientSample", "ExposureMismatch"}, Message: "Judging cart-00002 against cart-00001: 120 requests of the canary, 1080 of the baseline; 180 and 0 more are needed",
		Report: report(t, judge.Judgement{
			Verdict: verdict.Running, Canary: judge.Samples{Requests: 120, Missing: 180, Shards: 12}, Baseline: judge.Samples{Requests: 1080, Shards: 88},
			RequiredShare: ratio(.1), HandledShare: ratio(.36), Metrics: []judge.Result{
				{Name: "ErrorRate", Verdict: verdict.Running, Reason: verdict.InsufficientSample, Canary: ratio(.05), Baseline: ratio(.01), Low: ratio(.02), High: ratio(.09), EFail: 6.3, EFailLimit: 40, EPass: .2, EPassLimit: 20, Missing: 240},
				{Name: "SlowRequests", Verdict: verdict.Pass, Reason: verdict.Negligible, Canary: ratio(0), Baseline: ratio(.002), EFail: .4, EFailLimit: 40, EPass: 31, EPassLimit: 20},
			},
		}),
	}
	ended := metav1.NewTime(ago(20 * time.Minute))
	failed := &v1alpha1.GateRun{
		ID: "r0", Gate: "books-gate", Service: v1alpha1.GateObject{Name: "books"}, Canary: v1alpha1.GateObject{Name: "books-00002"}, Baseline: &v1alpha1.GateObject{Name: "books-00001"},
		Minimum: minimum, StartTime: metav1.NewTime(ago(25 * time.Minute)), Deadline: metav1.NewTime(noon.Add(5 * time.Minute)), CompletionTime: &ended,
		Verdict: verdict.Fail, Reasons: []string{"RelativeRegression"}, Message: "Judging books-00002 against books-00001: 900 requests of the canary, 2100 of the baseline; ErrorRate: 9 % to 1 %, odds above 1.5 times the baseline's",
		Report: report(t, judge.Judgement{
			Verdict: verdict.Fail, Canary: judge.Samples{Requests: 900}, Baseline: judge.Samples{Requests: 2100}, RequiredShare: ratio(.3), HandledShare: ratio(.3),
			Metrics: []judge.Result{{Name: "ErrorRate", Verdict: verdict.Fail, Reason: verdict.RelativeRegression, Canary: ratio(.09), Baseline: ratio(.01), Low: ratio(.06), High: ratio(.1), EFail: 3e7, EFailLimit: 40, EPassLimit: 20}},
		}),
	}
	for _, g := range []struct {
		name, service string
		watch         bool
		run           *v1alpha1.GateRun
		found         string
	}{
		{"cart-gate", "cart", true, running, ""}, {"books-gate", "books", true, failed, ""}, {"crat", "crat", true, nil, "ServiceNotFound"},
	} {
		gate := &v1alpha1.CanaryGate{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: g.name}, Spec: v1alpha1.CanaryGateSpec{Service: g.service, Watch: g.watch}}
		gate = must[*v1alpha1.CanaryGate](t)(f.events.CanaryGates("shop").Create(t.Context(), gate, metav1.CreateOptions{}))
		manager := apis.NewLivingConditionSet(v1alpha1.GateServiceFound, v1alpha1.GateMeasured).Manage(&gate.Status)
		manager.InitializeConditions()
		manager.MarkTrue(v1alpha1.GateServiceFound)
		manager.MarkTrue(v1alpha1.GateMeasured)
		if g.found != "" {
			manager.MarkFalse(v1alpha1.GateServiceFound, g.found, "Knative Service %q does not exist in this namespace", g.service)
		}
		gate.Status.ObservedGeneration = gate.Generation
		if gate.Status.Run = g.run; g.run != nil {
			gate.Status.Latest = latest(g.run)
		}
		must[*v1alpha1.CanaryGate](t)(f.events.CanaryGates("shop").UpdateStatus(t.Context(), gate, metav1.UpdateOptions{}))
	}
}

func latest(run *v1alpha1.GateRun) *v1alpha1.GateLatest {
	return &v1alpha1.GateLatest{ID: run.ID, StartTime: run.StartTime, Verdict: run.Verdict, Reasons: run.Reasons[0], Message: run.Message, Canary: run.Canary.Name}
}

// entry returns an entry of the ledger.
func (f *fleetOf) entry(t *testing.T, kind, namespace, name string, uid types.UID, memory any, transitions ...lifecycle.Transition) *v1alpha1.CDEventSubject {
	t.Helper()
	apiVersion := map[string]string{"Service": "serving.knative.dev/v1", "Cluster": "cluster.x-k8s.io/v1beta1", "Baseline": "knative-cdevents.dev/v1alpha1"}[kind]
	s := &v1alpha1.CDEventSubject{
		ObjectMeta: metav1.ObjectMeta{Name: map[string]string{"Service": "service-", "Cluster": "cluster-", "Baseline": "baseline-"}[kind] + string(uid)},
		Spec:       v1alpha1.CDEventSubjectSpec{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name, UID: uid},
	}
	if memory != nil {
		s.Status.Memory = &runtime.RawExtension{Raw: must[[]byte](t)(json.Marshal(memory))}
	}
	for _, tr := range transitions {
		s.Status.Journal = append(s.Status.Journal, v1alpha1.JournalEntry{
			Sequence: tr.Sequence, Time: metav1.MicroTime{Time: tr.Time}, Type: string(tr.Type), Transition: runtime.RawExtension{Raw: must[[]byte](t)(json.Marshal(tr))},
			Recipients: []v1alpha1.Recipient{{Source: f.sources["staging"], Profile: "p"}},
		})
		s.Status.Sequence, s.Status.LastEvent, s.Status.LastEventTime = tr.Sequence, string(tr.Type), &metav1.MicroTime{Time: tr.Time}
		s.Status.Pending++
		if s.Status.OldestPending == nil {
			s.Status.OldestPending = &metav1.MicroTime{Time: tr.Time}
		}
	}
	return s
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
	of := f.entry(t, "Service", "shop", "cart", cart.UID, memory, ready, shifted)
	of.Status.Journal[1].Recipients = append(of.Status.Journal[1].Recipients, v1alpha1.Recipient{Source: f.sources["all"], Profile: "p"})
	of.Status.Pending = 3
	of.Status.Acknowledged = map[types.UID]int64{f.sources["releases"]: 7, f.sources["all"]: 6, f.sources["staging"]: 5}
	of.Status.Dropped = map[string]int64{"Rejected": 1}
	of.Status.History = []v1alpha1.PastTransition{
		{Sequence: 4, Time: *micro(25 * time.Hour), Type: string(lifecycle.IncidentDetected), Incident: string(lifecycle.Outage), Reason: "RouteMissing", Revision: "cart-00001"},
		{Sequence: 5, Time: *micro(24 * time.Hour), Type: string(lifecycle.IncidentResolved), Incident: string(lifecycle.Outage), Revision: "cart-00001"},
		{Sequence: 6, Time: metav1.NewMicroTime(ready.Time), Type: string(ready.Type), Revision: "cart-00002"},
		{Sequence: 7, Time: metav1.NewMicroTime(shifted.Time), Type: string(shifted.Type), Revision: "cart-00002", Previous: "cart-00001"},
	}

	upgraded := &lifecycle.TransitionRef{Sequence: 4, Time: ago(5 * time.Hour), Type: lifecycle.Upgraded}
	still := f.entry(t, "Service", "shop", "books", books.UID, lifecycle.Memory{Sequence: 4, Primary: "books-00001", Last: upgraded, Revisions: map[string]lifecycle.KnownRevision{
		"books-00001": {Revision: lifecycle.Revision{Name: "books-00001"}, Arrived: upgraded},
	}})
	still.Status.Sequence, still.Status.LastEvent, still.Status.LastEventTime = 4, string(lifecycle.Upgraded), micro(5*time.Hour)
	still.Status.Acknowledged = map[types.UID]int64{f.sources["releases"]: 4}

	gone := f.entry(t, "Service", "shop", "bygone", "u-bygone", lifecycle.Memory{Sequence: 3, Removed: true},
		lifecycle.Transition{Sequence: 3, Time: ago(40 * time.Minute), Type: lifecycle.Removed, Revision: &lifecycle.Revision{Name: "bygone-00001"}})
	gone.Status.Removed = true

	environment := f.entry(t, "Cluster", "fleet", "prod", "u-prod", lifecycle.EnvironmentMemory{Sequence: 2},
		lifecycle.Transition{Sequence: 2, Time: ago(11 * time.Minute), Type: lifecycle.EnvironmentModified, Environment: &lifecycle.EnvironmentDetails{Changed: []string{"version", "pools"}}})

	marker := f.entry(t, "Baseline", "", "cluster.cluster.x-k8s.io", "cluster.cluster.x-k8s.io", nil)
	marker.Status.Conditions = []metav1.Condition{{
		Type: "Readable", Status: metav1.ConditionFalse, Reason: "MayNotRead", LastTransitionTime: metav1.NewTime(ago(time.Hour)),
		Message: "the controller may not read this kind; allow it with the ClusterRoles in config/optional/environments",
	}}
	for _, s := range []*v1alpha1.CDEventSubject{of, still, gone, environment, marker} {
		must[*v1alpha1.CDEventSubject](t)(f.events.CDEventSubjects(system).Create(t.Context(), s, metav1.CreateOptions{}))
	}
}

// readOnly returns a kubeconfig of an administrator behind a proxy that refuses, and reports, any request that
// is not a GET.
func (f *fleetOf) readOnly(t *testing.T) string {
	t.Helper()
	config := f.cp.Config()
	target := must[*url.URL](t)(url.Parse(config.Host))
	transport := must[http.RoundTripper](t)(rest.TransportFor(config))
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
	return written(t, must[[]byte](t)(cp.KubeConfig(user, groups...)))
}

func written(t *testing.T, raw []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
