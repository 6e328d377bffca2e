// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/cli/command"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/transports"
	"github.com/knative-cdevents/knative-cdevents/reconciler/source/valid"
	"github.com/knative-cdevents/knative-cdevents/test/fleet"
)

// deployment adds a Deployment of which all replicas are ready.
func (f *fleetOf) deployment(t *testing.T, namespace, name, version string) {
	t.Helper()
	pod, one := map[string]string{"app": name}, int32(1)
	d, err := f.Core.AppsV1().Deployments(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		d = fleet.Must[*appsv1.Deployment](t)(f.Core.AppsV1().Deployments(namespace).Create(t.Context(), &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: pod}, Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: pod}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "controller", Image: "example.com/controller:1"}}},
			}},
		}, metav1.CreateOptions{}))
	}
	d.Labels, d.Annotations, d.Spec.Replicas = map[string]string{"app.kubernetes.io/version": version}, nil, &one
	d = fleet.Must[*appsv1.Deployment](t)(f.Core.AppsV1().Deployments(namespace).Update(t.Context(), d, metav1.UpdateOptions{}))
	d.Status.Replicas, d.Status.ReadyReplicas = 1, 1
	fleet.Must[*appsv1.Deployment](t)(f.Core.AppsV1().Deployments(namespace).UpdateStatus(t.Context(), d, metav1.UpdateOptions{}))
}

// admission answers as the webhook does.
func (f *fleetOf) admission(t *testing.T) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		var s v1alpha1.CDEventSource
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Errorf("admission: %v", err)
			return
		}
		if err := json.Unmarshal(review.Request.Object.Raw, &s); err != nil {
			t.Errorf("admission: %v", err)
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		if err := valid.Check(&s, fleet.System, transports.Schemes); err != nil {
			review.Response.Allowed = false
			review.Response.Result = &metav1.Status{Code: http.StatusBadRequest, Reason: metav1.StatusReasonBadRequest, Message: "validation failed: " + err.Error()}
		}
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Errorf("admission: %v", err)
		}
	}))
	t.Cleanup(server.Close)
	none, fails := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Fail
	hook := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "validation.webhook.knative-cdevents.dev"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "validation.webhook.knative-cdevents.dev", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &fails,
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{v1alpha1.GroupName}, APIVersions: []string{"v1alpha1"}, Resources: []string{"cdeventsources"}},
			}},
		}},
	}
	hooks := f.Core.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	fleet.Must[*admissionregistrationv1.ValidatingWebhookConfiguration](t)(hooks.Create(t.Context(), hook, metav1.CreateOptions{}))
	t.Cleanup(func() { _ = hooks.Delete(t.Context(), hook.Name, metav1.DeleteOptions{}) }) // the API server ends with the test
}

// check looks at the cluster before and after it is as it must be. Its clock is the real one.
func (f *fleetOf) check(t *testing.T, admin string) {
	at := time.Now
	got := runAt(t, admin, at, "check", "-n", "shop")
	if command.Code(got.failed) != 1 {
		t.Errorf("check ended with code %d: %v", command.Code(got.failed), got.failed)
	}
	for _, want := range []string{
		"ok       Kubernetes        v1.", "unknown  Knative Serving   it is installed; its version is not known",
		"failure  Webhook           there is no Deployment webhook", "failure  Webhook answers   it does not check sources",
		"failure  Leader            no replica", "ok       Rights            you may do all 7", "warning  Request metrics   Serving does not export them",
		"failure  Sinks             shop/staging: its sink has no address", "ok       Clock ",
	} {
		if !strings.Contains(got.out, want) {
			t.Errorf("check printed, without %q:\n%s", want, got.out)
		}
	}
	fleet.Must[*corev1.Namespace](t)(f.Core.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "knative-serving"}}, metav1.CreateOptions{}))
	fleet.Must[*corev1.ConfigMap](t)(f.Core.CoreV1().ConfigMaps("knative-serving").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "config-observability"}, Data: map[string]string{"request-metrics-protocol": "prometheus"},
	}, metav1.CreateOptions{}))
	definitions := fleet.Must[metadata.Interface](t)(metadata.NewForConfig(f.Config()))
	fleet.Must[*metav1.PartialObjectMetadata](t)(definitions.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}).Patch(t.Context(), "services.serving.knative.dev", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"app.kubernetes.io/version":"1.23.0"}}}`), metav1.PatchOptions{}))
	f.deployment(t, fleet.System, "controller", "devel")
	f.deployment(t, fleet.System, "webhook", "devel")
	f.admission(t)
	holder, seconds, now := "controller-0_1", int32(15), metav1.NewMicroTime(time.Now())
	// A controller that has just become ready elects its leaders a moment later.
	time.AfterFunc(2*time.Second, func() {
		if _, err := f.Core.CoordinationV1().Leases(fleet.System).Create(t.Context(), &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: "controller.services.00-of-01"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now},
		}, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	})
	if err := f.Events.CDEventSources(fleet.Shop).Delete(t.Context(), "staging", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	got = runAt(t, admin, at, "check", "-n", "shop")
	got.errors(t, "")
	for _, want := range []string{
		"ok       Knative Serving   1.23.0", "ok       Custom resources  all 7 are served, of version devel", "ok       Controller        1 of 1 replica is ready, of version devel",
		"ok       Leader            1 lease is held, by 1 replica; its clock agrees", "ok       Webhook           1 of 1", "ok       Webhook answers   it refused a wrong source",
		"ok       Request metrics   Serving exports them", "ok       Sinks             all are resolved, of ",
	} {
		if !strings.Contains(got.out, want) {
			t.Errorf("check printed, without %q:\n%s", want, got.out)
		}
	}
	got = runAt(t, admin, func() time.Time { return time.Now().Add(-5 * time.Minute) }, "check", "-n", "shop", "-o", "jsonpath={.failures} {.checks[-1].what}")
	if !strings.HasPrefix(got.out, "1 this machine's clock is ") || !strings.HasSuffix(got.out, " behind the API server's") {
		t.Errorf("with a wrong clock, check printed %q", got.out)
	}
	nemo := kubeconfig(t, f.ControlPlane, "nemo")
	got = runAt(t, nemo, at, "check", "-n", "shop")
	if command.Code(got.failed) != 1 || !strings.Contains(got.out, "failure  Rights            you may not list cdeventsources") ||
		!strings.Contains(got.out, "unknown  Webhook answers   you may not create cdeventsources in namespace shop") {
		t.Errorf("for nemo, check printed (%v)\n%s", got.failed, got.out)
	}
}

// version compares versions.
func (f *fleetOf) version(t *testing.T, admin string) {
	f.deployment(t, fleet.System, "controller", "v0.7.0")
	got := run(t, admin, "", "version")
	got.errors(t, "")
	if want := "plugin      devel\ncontroller  v0.7.0 (Deployment controller in namespace knative-cdevents)\nskew        one of them is a development build, so whether they fit together is not known\n"; got.out != want {
		t.Errorf("version printed %q, want %q", got.out, want)
	}
	got = run(t, admin, "", "version", "-o", "jsonpath={.client.version} {.controller.version} {.controller.image} {.supported}")
	if got.errors(t, ""); got.out != "devel v0.7.0 controller true" {
		t.Errorf("version printed %q", got.out)
	}
	got = run(t, "/nowhere", "", "version", "--client")
	if got.errors(t, ""); got.out != "plugin      devel\n" {
		t.Errorf("version --client printed %q", got.out)
	}
	got = run(t, kubeconfig(t, f.ControlPlane, "nemo"), "", "version")
	if command.Code(got.failed) != 3 || !strings.HasPrefix(got.out, "plugin ") || !strings.Contains(got.failed.Error(), "you may not get deployments") {
		t.Errorf("for nemo: %q, %v", got.out, got.failed)
	}
}

// create creates a source and a gate.
func (f *fleetOf) create(t *testing.T, admin string) {
	run(t, admin, "", "create", "source", "made", "-n", "shop", "--sink", "broker:default", "--selector", "team=a,tier notin (test)", "--environment", "prod", "--replay", "Current", "--dry-run=client", "-o", "yaml").golden(t, "create-source")
	run(t, admin, "", "create", "gate", "made", "-n", "shop", "--service", "cart", "--watch", "--only-report", "--timeout", "45m", "--min-requests", "100", "--dry-run=client", "-o", "yaml").golden(t, "create-gate")
	for _, c := range []struct {
		args, out string
		code      int
	}{
		{"create source made --sink ksvc:display --dry-run", "cdeventsource.knative-cdevents.dev/made created (dry run)\n", 0},
		{"create source made --sink ksvc:display --dry-run=server", "cdeventsource.knative-cdevents.dev/made created (server dry run)\n", 0},
		{"create source made --sink https://hooks.example.com/a -o name", "cdeventsource.knative-cdevents.dev/made\n", 0},
		{"create source made --sink svc:display", "", 1},
		{"create gate made --service cart", "canarygate.knative-cdevents.dev/made created\n", 0},
		{"create source other --sink svc:display --replay Everything", "", 1},
		{"create source other --sink display", "", 2},
		{"create source other", "", 2},
		{"create gate other", "", 2},
		{"create gate other --service Cart", "", 2},
		{"create gate other --service cart --dry-run=maybe", "", 2},
	} {
		got := run(t, admin, "", append(strings.Fields(c.args), "-n", "shop")...)
		if code := command.Code(got.failed); code != c.code || got.out != c.out {
			t.Errorf("%s: code %d, %v, printed %q", c.args, code, got.failed, got.out)
		}
	}
	made := fleet.Must[*v1alpha1.CDEventSource](t)(f.Events.CDEventSources(fleet.Shop).Get(t.Context(), "made", metav1.GetOptions{}))
	if got := made.Spec.Sink.URI.String(); got != "https://hooks.example.com/a" {
		t.Errorf("the source that was created has sink %s", got)
	}
	if got := run(t, kubeconfig(t, f.ControlPlane, "nemo"), "", "create", "source", "a", "-n", "shop", "--sink", "svc:a"); command.Code(got.failed) != 3 {
		t.Errorf("for nemo: code %d, %v", command.Code(got.failed), got.failed)
	}
}

// testEvent sends events to a sink on this machine, directly and through the API server.
func (f *fleetOf) testEvent(t *testing.T, admin string) {
	type request struct {
		path string
		http.Header
		body string
	}
	requests := make(chan request, 10)
	received := func() (r request) {
		select {
		case r = <-requests:
		default: // none came
		}
		return r
	}
	answer := http.StatusAccepted
	sink := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		requests <- request{r.URL.Path, r.Header, string(raw)}
		w.WriteHeader(answer)
		_, _ = io.WriteString(w, "thank you\x1b[2J\nsecond line")
	}))
	if err := sink.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	sink.Listener = fleet.Must[net.Listener](t)(net.Listen("tcp", ":0")) //nolint:gosec,noctx // the API server does not proxy to 127.0.0.1
	sink.Start()
	t.Cleanup(sink.Close)
	port := sink.Listener.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert,errcheck // it listens on TCP

	made := fleet.Must[*v1alpha1.CDEventSource](t)(f.Events.CDEventSources(fleet.Shop).Get(t.Context(), "made", metav1.GetOptions{}))
	address := func(to string) {
		t.Helper()
		u := fleet.Must[*url.URL](t)(url.Parse(to))
		made.Status.SinkURI = (*apis.URL)(u)
		made = fleet.Must[*v1alpha1.CDEventSource](t)(f.Events.CDEventSources(fleet.Shop).UpdateStatus(t.Context(), made, metav1.UpdateOptions{}))
	}
	if got := run(t, admin, "", "test-event", "staging", "-n", "shop"); command.Code(got.failed) != 1 || !strings.Contains(got.failed.Error(), "its sink has no address") {
		t.Errorf("without an address: %v", got.failed)
	}
	address("http://127.0.0.1:" + strconv.Itoa(port) + "/in?x=y")
	got := run(t, admin, "", "test-event", "made", "-n", "shop")
	got.errors(t, "")
	r := received()
	if r.path != "/in" || r.Get("Ce-Type") != "dev.cdeventsx.knative-source.tested.0.1.0" || r.Get("Ce-Cdeventstest") != "true" || r.Get("Ce-Subject") != "source/shop/made" ||
		!strings.Contains(r.body, `"test":true`) || !strings.Contains(got.out, "from this machine, not from the controller") || !strings.Contains(got.out, "answer   202 Accepted after ") ||
		!strings.Contains(got.out, `thank you\x1b[2J …`) {
		t.Errorf("the sink got %+v; printed was\n%s", r, got.out)
	}
	answer = http.StatusUnprocessableEntity
	got = run(t, admin, "", "test-event", "made", "-n", "shop", "-o", "jsonpath={.status} {.accepted} {.via}")
	if received(); command.Code(got.failed) != 1 || got.out != "422 false direct" {
		t.Errorf("a sink that refuses: %v, %q", got.failed, got.out)
	}
	address("http://127.0.0.1:1/")
	if got := run(t, admin, "", "test-event", "made", "-n", "shop"); command.Code(got.failed) != 3 {
		t.Errorf("a sink that is not there: code %d, %v", command.Code(got.failed), got.failed)
	}

	// Through the API server.
	answer = http.StatusOK
	f.expose(t, "display", port)
	address("http://display.shop.svc.cluster.local/events")
	got = run(t, admin, "", "test-event", "made", "-n", "shop")
	got.errors(t, "")
	if r := received(); r.path != "/events" || r.Get("Ce-Cdeventstest") != "true" || !strings.Contains(got.out, "through the API server, not from the controller") {
		t.Errorf("the sink got %+v; printed was\n%s", r, got.out)
	}
	defer func() {
		if err := f.Events.CDEventSources(fleet.Shop).Delete(t.Context(), "made", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}()
	address("http://nothing.shop.svc.cluster.local/events")
	if got := run(t, admin, "", "test-event", "made", "-n", "shop"); command.Code(got.failed) != 3 || !strings.Contains(got.failed.Error(), "not found") {
		t.Errorf("a Service that is not there: code %d, %v", command.Code(got.failed), got.failed)
	}
}

// expose makes a port of this machine a Service.
func (f *fleetOf) expose(t *testing.T, name string, port int) {
	t.Helper()
	own := ""
	for _, a := range fleet.Must[[]net.Addr](t)(net.InterfaceAddrs()) {
		if n, is := a.(*net.IPNet); is && n.IP.To4() != nil && !n.IP.IsLoopback() {
			own = n.IP.String()
		}
	}
	if own == "" {
		t.Skip("this machine has no address but that of itself")
	}
	at := int32(port) //nolint:gosec // a port
	fleet.Must[*corev1.Service](t)(f.Core.CoreV1().Services(fleet.Shop).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{ClusterIP: "None", Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{}))
	// The API server leads to addresses of pods only.
	pod := fleet.Must[*corev1.Pod](t)(f.Core.CoreV1().Pods(fleet.Shop).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: name, Image: "example.com/display"}}},
	}, metav1.CreateOptions{}))
	pod.Status.PodIP, pod.Status.PodIPs = own, []corev1.PodIP{{IP: own}}
	fleet.Must[*corev1.Pod](t)(f.Core.CoreV1().Pods(fleet.Shop).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}))
	of := &corev1.ObjectReference{Kind: "Pod", Namespace: fleet.Shop, Name: name, UID: pod.UID}
	empty := ""
	fleet.Must[*corev1.Endpoints](t)(f.Core.CoreV1().Endpoints(fleet.Shop).Create(t.Context(), &corev1.Endpoints{ //nolint:staticcheck // the proxy may still read these
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Subsets:    []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: own, TargetRef: of}}, Ports: []corev1.EndpointPort{{Port: at}}}}, //nolint:staticcheck // as above
	}, metav1.CreateOptions{}))
	fleet.Must[*discoveryv1.EndpointSlice](t)(f.Core.DiscoveryV1().EndpointSlices(fleet.Shop).Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/service-name": name}}, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{own}, TargetRef: of}}, Ports: []discoveryv1.EndpointPort{{Name: &empty, Port: &at}},
	}, metav1.CreateOptions{}))
}

// TestHelp compares the help of all commands.
func TestHelp(t *testing.T) {
	for _, line := range []string{
		"", "list", "history", "watch", "gate", "gate wait", "why", "dashboard", "check", "lint", "create", "create source", "create gate", "test-event", "version", "completion",
	} {
		run(t, "", "", append(strings.Fields(line), "--help")...).golden(t, filepath.Join("help", strings.ReplaceAll("kubectl-cdevents "+line, " ", "-")))
	}
}

// TestCompletion prints scripts that the shells which are here can read.
func TestCompletion(t *testing.T) {
	for _, c := range []struct{ shell, want, check string }{
		{"kubectl", "exec kubectl-cdevents __complete \"$@\"\n", "sh"},
		{"bash", "complete -o default -F __start_kubectl-cdevents kubectl-cdevents", "bash"},
		{"zsh", "#compdef kubectl-cdevents", "zsh"},
		{"fish", "complete -c kubectl-cdevents", "fish"},
		{"powershell", "-CommandName 'kubectl-cdevents'", "pwsh"},
	} {
		got := run(t, "", "", "completion", c.shell)
		if got.errors(t, ""); !strings.Contains(got.out, c.want) {
			t.Errorf("completion %s has no %q", c.shell, c.want)
		}
		program, err := exec.LookPath(c.check)
		if err != nil || c.shell == "powershell" {
			continue
		}
		file := filepath.Join(t.TempDir(), "script")
		if err := os.WriteFile(file, []byte(got.out), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), program, "-n", file).CombinedOutput(); err != nil {
			t.Errorf("%s does not read its script: %v\n%s", c.shell, err, out)
		}
	}
	if got := run(t, "", "", "completion", "csh"); command.Code(got.failed) != 2 {
		t.Errorf("completion csh: %v", got.failed)
	}
}
