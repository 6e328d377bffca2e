// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
)

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

const ours = "knative-cdevents"

// program is the core as it is installed, with a real API server.
type program struct {
	*exec.Cmd
	t *testing.T
	// address is where it listens, and token that of the doorbell.
	address, token string
	events         *client.Clientset
}

// newProgram builds the program. The test starts it.
func newProgram(t *testing.T, env ...string) *program {
	t.Helper()
	path := filepath.Join(t.TempDir(), "core")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("building the program: %v\n%s", err, out)
	}
	cp := controlplane.Start(t)
	if err := cp.InstallServing(t.Context()); err != nil {
		t.Fatal(err)
	}
	kube := must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(cp.Config()))
	must[*corev1.Namespace](t)(kube.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ours}}, metav1.CreateOptions{}))
	accounts := kube.CoreV1().ServiceAccounts(ours)
	must[*corev1.ServiceAccount](t)(accounts.Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "doorbell"}}, metav1.CreateOptions{}))
	token := must[*authenticationv1.TokenRequest](t)(accounts.CreateToken(t.Context(), "doorbell", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: []string{defaultAudience}},
	}, metav1.CreateOptions{})).Status.Token
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, must[[]byte](t)(cp.KubeConfig("core", "system:masters")), 0o600); err != nil {
		t.Fatal(err)
	}
	listener := must[net.Listener](t)((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), path, "--kubeconfig="+kubeconfig, "--listen="+address)
	cmd.Env = append(env, "SYSTEM_NAMESPACE="+ours)
	return &program{
		Cmd: cmd, t: t, address: address, token: token,
		events: must[*client.Clientset](t)(client.New(cp.Config())),
	}
}

// begin starts it, and returns when it answers.
func (p *program) begin() {
	p.t.Helper()
	began := time.Now()
	if err := p.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = p.Process.Kill() }) // it may have ended
	for until := time.Now().Add(time.Minute); p.ask(http.MethodGet, "/healthz", "", "") != http.StatusOK; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			p.t.Fatal("it does not start")
		}
	}
	p.t.Logf("it answers %v after its start", time.Since(began).Round(time.Millisecond))
}

// ask sends a request: a ring about an object of a kind of Serving in the namespace shop, or for a sweep.
func (p *program) ask(method, url, token, kind string) int {
	p.t.Helper()
	r := must[*http.Request](p.t)(http.NewRequestWithContext(p.t.Context(), method, "http://"+p.address+url, strings.NewReader("{}")))
	headers := map[string]string{"Specversion": "1.0", "Id": "1", "Source": "/a", "Type": "dev.knative.sources.ping"}
	if kind != "" {
		headers["Type"], headers["Kind"], headers["Apiversion"] = "dev.knative.apiserver.ref.update", kind, "serving.knative.dev/v1"
		headers["Namespace"], headers["Name"] = "shop", "cart"
	}
	for name, value := range headers {
		r.Header.Set("Ce-"+name, value)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	defer response.Body.Close() //nolint:errcheck // only the status counts
	return response.StatusCode
}

// TestProgram runs the real program: it starts, sweeps when it is rung, refuses strangers, and ends after a signal.
func TestProgram(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	source := &v1alpha1.CDEventSource{ObjectMeta: metav1.ObjectMeta{Namespace: ours, Name: "all"}}
	source.Spec.Sink.URI = apis.HTTP("sink.example")
	must[*v1alpha1.CDEventSource](t)(p.events.CDEventSources(ours).Create(t.Context(), source, metav1.CreateOptions{}))
	p.Stdout, p.Stderr = t.Output(), t.Output()
	p.begin()
	if got := p.ask(http.MethodPost, "/", p.token, ""); got != http.StatusNoContent {
		t.Errorf("a sweep: %d", got)
	}
	if got := p.ask(http.MethodPost, "/", p.token+"x", ""); got != http.StatusUnauthorized {
		t.Errorf("a forged token: %d", got)
	}
	metrics := scrape(t, "http://"+p.address+"/metrics")
	for _, want := range []string{
		`cdevents_core_rings_total{kind="sweep",otel_scope_name="knative-cdevents.dev/core",`, `result="answered"} 1`,
		`cdevents_core_ring_duration_seconds_count{kind="sweep",`, `cdevents_dropped_total{`, "cdevents_ledger_conflicts_total{",
		`cdevents_pending{`, `source="knative-cdevents/all"} 0`, "process_resident_memory_bytes ",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics does not contain %q:\n%s", want, metrics)
		}
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// mostMemory is the limit of the container, and memoryLimit what the manifest has the Go runtime aim at.
const (
	mostMemory  = 256 << 10 // KiB
	memoryLimit = "GOMEMLIMIT=230MiB"
)

// TestFullJournals has rings that list the ledger come at once, after a sink was away for so long that journals are full.
// The program stays below the limit of its container. Beyond it, it would be killed, and so would the one after it.
func TestFullJournals(t *testing.T) {
	p := newProgram(t, memoryLimit)
	big := runtime.RawExtension{Raw: []byte(`{"x":"` + strings.Repeat("x", 33<<10) + `"}`)}
	for i := range 60 {
		s := &v1alpha1.CDEventSubject{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("service-uid-%d", i)}}
		s.Spec = v1alpha1.CDEventSubjectSpec{
			APIVersion: "serving.knative.dev/v1", Kind: "Service", Namespace: "shop", Name: fmt.Sprintf("cart-%d", i), UID: "uid",
		}
		for s.Status.Sequence < 15 {
			s.Status.Sequence++
			s.Status.Journal = append(s.Status.Journal, v1alpha1.JournalEntry{
				Sequence: s.Status.Sequence, Time: metav1.NowMicro(), Type: "upgraded", Transition: big,
				Recipients: []v1alpha1.Recipient{{Source: "source", Profile: "profile"}},
			})
		}
		must[*v1alpha1.CDEventSubject](t)(p.events.CDEventSubjects(ours).Create(t.Context(), s, metav1.CreateOptions{}))
	}
	p.begin()
	var all sync.WaitGroup
	for _, kind := range []string{"", "DomainMapping", "DomainMapping", "Revision", "Revision"} {
		all.Go(func() { p.ask(http.MethodPost, "/", p.token, kind) }) // what they lead to is not the question
	}
	all.Wait()
	status := string(must[[]byte](t)(os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))))
	_, peak, _ := strings.Cut(status, "VmHWM:")
	kib := must[int](t)(strconv.Atoi(strings.Fields(peak)[0]))
	t.Logf("its peak is %d MiB", kib>>10)
	if kib > mostMemory {
		t.Errorf("its peak is %d KiB, and the limit of its container is %d", kib, mostMemory)
	}
}

func scrape(t *testing.T, url string) string {
	t.Helper()
	r := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // everything is read
	return string(must[[]byte](t)(io.ReadAll(response.Body)))
}
