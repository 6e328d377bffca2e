// SPDX-License-Identifier: Apache-2.0

package rivals

import (
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

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	serving "knative.dev/serving/pkg/client/clientset/versioned"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
)

// rival is a tool that runs, with what it sees.
type rival struct {
	*testing.T
	*script
	url      string
	services serving.Interface
	dynamic  dynamic.Interface
	kube     kubernetes.Interface
}

// start starts the program of a pinned part in the folder that RIVALS names, with its CRDs. URL in an argument stands
// for what answers it.
func start(t *testing.T, part, module, crds, program string, args ...string) *rival {
	t.Helper()
	programs := os.Getenv("RIVALS")
	if programs == "" {
		t.Skip("it takes minutes, and the programs: make compare-rules")
	}
	cp := controlplane.Start(t)
	must(t, cp.InstallServing(t.Context()))
	source, err := exec.CommandContext(t.Context(), "go", "-C", filepath.Join("..", "cluster", "parts", part), "list", "-m", "-f", "{{.Dir}}", module).Output()
	must(t, err)
	paths := []string{filepath.Join(strings.TrimSpace(string(source)), crds)}
	_, err = envtest.InstallCRDs(cp.Config(), envtest.CRDInstallOptions{Paths: paths})
	must(t, err)
	r := &rival{T: t, script: &script{asked: map[string]int{}, answers: map[string][]string{}}}
	server := httptest.NewServer(r.script)
	t.Cleanup(server.Close)
	r.url = server.URL
	var errs [3]error
	r.services, errs[0] = serving.NewForConfig(cp.Config())
	r.dynamic, errs[1] = dynamic.NewForConfig(cp.Config())
	r.kube, errs[2] = kubernetes.NewForConfig(cp.Config())
	for _, err := range errs {
		must(t, err)
	}
	config, err := cp.KubeConfig(program, "system:masters")
	must(t, err)
	dir := t.TempDir()
	file := filepath.Join(dir, "kubeconfig")
	must(t, os.WriteFile(file, config, 0o600))
	args = append([]string{"--kubeconfig", file}, args...)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "URL", r.url)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	must(t, err)
	cmd := exec.CommandContext(t.Context(), filepath.Join(programs, program), args...) //nolint:gosec // what the developer names
	cmd.Stdout, cmd.Stderr = log, log
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Wait() // the end of the test has ended it
		if said, err := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("%s said (%v):\n%s", program, err, said)
		}
	})
	return r
}

// in returns it for a subtest.
func (r *rival) in(t *testing.T) *rival {
	t.Helper()
	of := *r
	of.T = t
	return &of
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// script answers each analysis with its answers, one after the other; the last one stays.
type script struct {
	mu      sync.Mutex
	asked   map[string]int
	answers map[string][]string
}

func (s *script) set(name string, answers ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[name] = answers
}

// asks is how often an analysis has asked.
func (s *script) asks(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[name]
}

// nth returns an answer; the first one is 0.
func nth(answers []string, n int) string { return answers[min(n, len(answers)-1)] }

// of finds the name of an analysis, in a query of Flagger for the success rate, or in one of an AnalysisRun.
var of = regexp.MustCompile(`envoy_cluster_name=~"([^/]+)/canary-00002"|success_of_(\w+)`)

// ServeHTTP answers as Prometheus, or as our gates.
func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := func(name string) string {
		s.asked[name]++
		return nth(s.answers[name], s.asked[name]-1)
	}
	w.Header().Set("Content-Type", "application/json")
	if name, gate := strings.CutPrefix(r.URL.Path, "/v1/gates/"); gate {
		_, _ = fmt.Fprintf(w, `{"verdict": %q}`, next(name))
		return
	}
	value := "1" // that it is online
	if found := of.FindStringSubmatch(r.FormValue("query")); found != nil {
		value = next(found[1] + found[2])
	}
	_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[0,%q]}]}}`, value)
}
