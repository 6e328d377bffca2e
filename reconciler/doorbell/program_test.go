// SPDX-License-Identifier: Apache-2.0

package doorbell

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

var (
	services = flag.Int("services", 0, "compare the memory of the doorbell with other programs, with so many Services and entries of the ledger")
	settle   = flag.Duration("settle", 30*time.Second, "how long each program is at rest before its memory is read")
	adapter  = flag.String("adapter", "", "the adapter of ApiServerSource, as \"make bench\" builds it, to be compared too")
)

// mostResident is the aim, for 10,000 Services.
const mostResident = 12 << 20

// program is one that runs.
type program struct {
	cmd  *exec.Cmd
	proc procfs.Proc
}

// startProgram starts a program, which writes to the log of the test.
func startProgram(t *testing.T, path string, env []string, args ...string) *program {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), path, args...)
	cmd.Env = env
	log := must[*os.File](t)(os.Create(filepath.Join(t.TempDir(), "log")))
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &program{cmd, must[procfs.Proc](t)(procfs.NewProc(cmd.Process.Pid))}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("%s:\n%s", filepath.Base(path), text[max(0, len(text)-4000):])
		}
	})
	return p
}

// memory returns what is resident, and what was at most, in bytes.
func (p *program) memory(t *testing.T) (resident, peak uint64) {
	t.Helper()
	status := must[procfs.ProcStatus](t)(p.proc.NewStatus())
	return status.VmRSS, status.VmHWM
}

func mebibytes(n uint64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// built builds a program as it is in an image.
func built(t *testing.T, name, folder string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, folder)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as ko builds the images
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", folder, err, out)
	}
	return path
}

// TestProgram runs the real program, as a pod would, and measures its memory. To compare it with others:
//
//	go test ./reconciler/doorbell -run TestProgram -v -timeout 2h -services 10000 -adapter bin/bench/apiserver_receive_adapter
func TestProgram(t *testing.T) {
	path := built(t, "doorbell", "../../cmd/doorbell")
	w := newWorld(t)
	if err := w.InstallServing(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.namespace("shop")
	w.fill(t, *services)
	core := newCoreServer(t)
	listen := freeAddress(t)
	p := startProgram(t, path, nil, "--core="+core.URL, "--server="+w.Config().Host, "--server-ca-file="+w.ca,
		"--server-token-file="+w.token, "--namespace="+system, "--listen="+listen)
	w.add(Services, "shop", "last")
	eventually(t, "a Service is rung", func() bool { return core.got("Service shop/last") > 0 })
	knows := fmt.Sprintf("cdevents_doorbell_wakes %d\n", *services)
	for began := time.Now(); ; time.Sleep(time.Second) {
		text := page(t, "http://"+listen+"/metrics")
		if strings.Contains(text, "cdevents_doorbell_waiting_keys 0\n") && strings.Contains(text, knows) {
			break
		}
		if time.Since(began) > 10*time.Minute {
			t.Fatalf("keys still wait, or times are not known:\n%s", text)
		}
	}
	if *services > 0 {
		time.Sleep(*settle)
	}
	resident, peak := p.memory(t)
	t.Logf("doorbell: %s resident, %s at most, with %d Services", mebibytes(resident), mebibytes(peak), *services)
	if resident > mostResident {
		t.Errorf("%s are resident, want at most %s", mebibytes(resident), mebibytes(mostResident))
	}
	if got := page(t, "http://"+listen+"/healthz"); got != "ok\n" {
		t.Errorf("/healthz says %q", got)
	}
	if *services > 0 {
		w.compare(t, core, resident)
		again, most := p.memory(t)
		t.Logf("doorbell, at the end: %s resident, %s at most", mebibytes(again), mebibytes(most))
	}
	began := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it ended %v after SIGTERM", took)
	}
	if a := w.account(t, "doorbell"); len(a.Positions) != 8 {
		t.Errorf("at the end, it stored %v", a.Positions)
	}
}

// fill creates Services, and entries of the ledger that want to be woken in a day.
func (w *world) fill(t *testing.T, n int) {
	t.Helper()
	var all sync.WaitGroup
	began := time.Now()
	for worker := range 8 {
		all.Go(func() {
			for i := worker; i < n; i += 8 {
				w.add(Services, "shop", fmt.Sprintf("service-%05d", i))
				w.add(Subjects, system, fmt.Sprintf("service-%08d-0000-4000-8000-000000000000", i), func(o *unstructured.Unstructured) {
					o.SetAnnotations(map[string]string{v1alpha1.WakeAnnotation: time.Now().Add(24 * time.Hour).Format(time.RFC3339)})
				})
			}
		})
	}
	all.Wait()
	if n > 0 {
		t.Logf("created in %v", time.Since(began).Round(time.Second))
	}
}

// compare measures other programs at the same API server.
func (w *world) compare(t *testing.T, core *coreServer, ours uint64) {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, must[[]byte](t)(w.KubeConfig("peer", "system:masters")), 0o600); err != nil {
		t.Fatal(err)
	}
	var watched []string
	for _, k := range watches(system, nil) {
		group, version, found := strings.Cut(k.APIVersion, "/")
		if !found {
			group, version = "", group
		}
		watched = append(watched, fmt.Sprintf(`{"gvr":{"Group":%q,"Version":%q,"Resource":%q}}`, group, version, k.Resource))
	}
	env := []string{
		"KUBECONFIG=" + kubeconfig, "K_SINK=" + core.URL, "NAME=peer", "NAMESPACE=" + system, "SYSTEM_NAMESPACE=" + system, "METRICS_DOMAIN=knative.dev/eventing",
		`K_SOURCE_CONFIG={"allNamespaces":true,"namespaces":[""],"mode":"Reference","resources":[` + strings.Join(watched, ",") + `]}`,
	}
	peers := map[string]string{"metadata informers": built(t, "informers", "./testdata/informers")}
	if *adapter != "" {
		peers["ApiServerSource"] = *adapter
	}
	for name, path := range peers {
		p := startProgram(t, path, env)
		time.Sleep(2 * *settle)
		resident, peak := p.memory(t)
		t.Logf("%s: %s resident, %s at most; the doorbell has %.2f of what is resident", name, mebibytes(resident), mebibytes(peak), float64(ours)/float64(resident))
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("%s has ended: %v", name, err)
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l := must[net.Listener](t)((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))
	defer l.Close() //nolint:errcheck // only its number is wanted
	return l.Addr().String()
}

// page returns what a server answers, empty if it does not.
func page(t *testing.T, url string) string {
	t.Helper()
	r := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return ""
	}
	defer response.Body.Close() //nolint:errcheck // everything is read
	return string(must[[]byte](t)(io.ReadAll(response.Body)))
}
