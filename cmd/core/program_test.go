// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// TestProgram runs the real program: it starts, sweeps when it is rung, refuses strangers, and ends after a signal.
func TestProgram(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "core")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("building the program: %v\n%s", err, out)
	}
	cp := controlplane.Start(t)
	if err := cp.InstallServing(t.Context()); err != nil {
		t.Fatal(err)
	}
	kube := must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(cp.Config()))
	const ours = "knative-cdevents"
	must[*corev1.Namespace](t)(kube.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ours}}, metav1.CreateOptions{}))
	accounts := kube.CoreV1().ServiceAccounts(ours)
	must[*corev1.ServiceAccount](t)(accounts.Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "doorbell"}}, metav1.CreateOptions{}))
	token := must[*authenticationv1.TokenRequest](t)(accounts.CreateToken(t.Context(), "doorbell", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: []string{defaultAudience}},
	}, metav1.CreateOptions{})).Status.Token
	events := must[*client.Clientset](t)(client.New(cp.Config()))
	source := &v1alpha1.CDEventSource{ObjectMeta: metav1.ObjectMeta{Namespace: ours, Name: "all"}}
	source.Spec.Sink.URI = apis.HTTP("sink.example")
	must[*v1alpha1.CDEventSource](t)(events.CDEventSources(ours).Create(t.Context(), source, metav1.CreateOptions{}))
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
	cmd.Env = []string{"SYSTEM_NAMESPACE=" + ours}
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill() //nolint:errcheck // it has ended
	ask := func(method, url, token string) int {
		r := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), method, "http://"+address+url, strings.NewReader("{}")))
		for name, value := range map[string]string{"Specversion": "1.0", "Id": "1", "Source": "/a", "Type": "dev.knative.sources.ping"} {
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
	for until := time.Now().Add(time.Minute); ask(http.MethodGet, "/healthz", "") != http.StatusOK; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("it does not start")
		}
	}
	t.Logf("it answers %v after its start", time.Since(began).Round(time.Millisecond))
	if got := ask(http.MethodPost, "/", token); got != http.StatusNoContent {
		t.Errorf("a sweep: %d", got)
	}
	if got := ask(http.MethodPost, "/", token+"x"); got != http.StatusUnauthorized {
		t.Errorf("a forged token: %d", got)
	}
	metrics := scrape(t, "http://"+address+"/metrics")
	for _, want := range []string{
		`cdevents_core_rings_total{kind="sweep",otel_scope_name="knative-cdevents.dev/core",`, `result="answered"} 1`,
		`cdevents_core_ring_duration_seconds_count{kind="sweep",`, `cdevents_dropped_total{`, "cdevents_ledger_conflicts_total{",
		`cdevents_pending{`, `source="knative-cdevents/all"} 0`, "process_resident_memory_bytes ",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics does not contain %q:\n%s", want, metrics)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
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
