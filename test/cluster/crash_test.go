// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/host"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/node"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/platform"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/proc"
)

// crashVariable enables the tests that kill a real cluster. They delete the machine's cluster.
const crashVariable = "CLUSTER_CRASH_TEST"

// program is the compiled program, and the test that runs it.
type program struct {
	t    *testing.T
	path string
}

func crashing(t *testing.T) program {
	t.Helper()
	if os.Getenv(crashVariable) == "" {
		t.Skipf("set %s=1 to kill a real cluster on this machine, as root", crashVariable)
	}
	if err := node.Supported(); err != nil {
		t.Fatal(err)
	}
	p := program{t: t, path: filepath.Join(t.TempDir(), "cluster")}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", p.path, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p.down() // each test starts with a clean machine
	return p
}

// run runs a command of the program and returns its standard output.
func (p program) run(args ...string) string {
	p.t.Helper()
	// Clean-up runs after the end of the test's own context.
	out, err := p.try(context.WithoutCancel(p.t.Context()), args...)
	if err != nil {
		p.t.Fatalf("cluster %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (p program) try(ctx context.Context, args ...string) (string, error) {
	var out, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, p.path, args...)
	cmd.Stdout, cmd.Stderr = &out, &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	began := time.Now()
	err := cmd.Run()
	p.t.Logf("cluster %s: %s, %v\n%s", strings.Join(args, " "), time.Since(began).Round(10*time.Millisecond), err, stderr.String())
	return out.String() + stderr.String(), err
}

const guest = `
apiVersion: v1
kind: Pod
metadata: {name: guest, namespace: default}
spec:
  containers:
  - name: guest
    image: ` + node.IP + `:5001/pause:latest
    securityContext: {runAsUser: 65532}
`

// invite deploys the guest: a pod that shows whether the cluster works.
func (p program) invite() {
	p.t.Helper()
	file := filepath.Join(p.t.TempDir(), "guest.yaml")
	if err := os.WriteFile(file, []byte(guest), 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.run("kubectl", "apply", "-f", file)
	p.guestRuns()
}

// guestRuns requires the pod to be Ready, and its processes to run on the machine: after a power cut, the API server's
// state may be stale.
func (p program) guestRuns() {
	p.t.Helper()
	const sandboxAndGuest = 2
	pod := "pod" + p.result("kubectl", "get", "pod/guest", "-o", "jsonpath={.metadata.uid}") + "/"
	eventually(p.t, 2*time.Minute, "the guest's processes", func() (string, bool) {
		pids := map[string]bool{}
		for _, g := range host.NewCgroups(cgroup).Groups() {
			if !strings.Contains(g, pod) {
				continue
			}
			data, err := os.ReadFile(filepath.Join(g, "cgroup.procs"))
			if err != nil {
				continue // it has ended in the meantime
			}
			for pid := range strings.FieldsSeq(string(data)) {
				pids[pid] = true
			}
		}
		return fmt.Sprint(pids), len(pids) == sandboxAndGuest
	})
	p.run("kubectl", "wait", "pod/guest", "--for=condition=Ready", "--timeout=120s")
}

// cgroup is the name of the cgroup in which pods run.
const cgroup = "knative-cdevents"

// marked returns the processes of the cluster, including those in pods.
func marked() []proc.Process {
	return append(proc.Marked(node.Dir), proc.ByID(host.NewCgroups(cgroup).PIDs())...)
}

func (p program) killEverything() {
	p.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); len(marked()) > 0 && time.Now().Before(deadline); {
		for _, one := range marked() {
			if err := syscall.Kill(one.PID, syscall.SIGKILL); err != nil {
				p.t.Logf("process %d had gone: %v", one.PID, err)
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	if left := marked(); len(left) > 0 {
		p.t.Fatalf("still alive: %v", left)
	}
}

func (p program) status() platform.Status {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), p.path, "status", "-o", "json")
	out, err := cmd.Output()
	if err != nil {
		p.t.Logf("cluster status: %v", err)
	}
	var s platform.Status
	if err := json.Unmarshal(out, &s); err != nil {
		p.t.Fatalf("%v: %s", err, out)
	}
	return s
}

func (p program) down(args ...string) {
	p.t.Helper()
	out := p.run(append([]string{"down"}, args...)...)
	if !strings.Contains(out, "after:  processes 0, mounts 0, network namespaces 0, links 0, rule tables 0, cgroups 0") {
		p.t.Errorf("down did not report that nothing is left: %s", out)
	}
}

func TestUpRestartsEachDaemonThatIsKilled(t *testing.T) { //nolint:paralleltest // the machine is shared
	p := crashing(t)
	p.run("up")
	t.Cleanup(func() { p.down() })
	p.invite()
	for _, name := range node.DaemonNames() {
		s := p.status()
		i := slices.IndexFunc(s.Daemons, func(d platform.DaemonStatus) bool { return d.Name == name })
		if err := syscall.Kill(s.Daemons[i].PID, syscall.SIGKILL); err != nil {
			t.Fatalf("killing %s: %v", name, err)
		}
		// A large process takes a while to die; up must handle both a dying and a dead one.
		if name != "kube-apiserver" {
			eventually(t, 10*time.Second, "status to show that "+name+" is dead", func() (string, bool) {
				s := p.status()
				return s.Daemons[i].Health, !s.Healthy && s.Daemons[i].Health != "ok"
			})
		}
		p.run("up")
		if s := p.status(); !s.Healthy {
			t.Errorf("not healthy after %s was killed and up ran: %+v", name, s)
		}
	}
	p.guestRuns()
}

func TestDownAfterEverythingWasKilledLeavesNothing(t *testing.T) { //nolint:paralleltest // the machine is shared
	p := crashing(t)
	p.run("up")
	p.invite()
	p.killEverything()
	p.down()
	if _, err := os.Stat(node.Dir); !os.IsNotExist(err) {
		t.Errorf("the data is still there: %v", err)
	}
	p.down()
}

func TestUpAfterAPowerCutRestoresEverything(t *testing.T) { //nolint:paralleltest // the machine is shared
	p := crashing(t)
	p.run("up")
	t.Cleanup(func() { p.down() })
	p.invite()
	p.run("kubectl", "create", "configmap", "kept", "--from-literal=a=b")
	for range 2 {
		p.killEverything()
		if mounts, err := host.MountsBelow(node.Dir); err != nil || len(mounts) == 0 {
			t.Fatalf("a power cut that leaves no mounts tests nothing: %v, %v", mounts, err)
		}
		p.run("up")
		p.run("kubectl", "get", "configmap", "kept")
		p.guestRuns()
	}
}

func TestKeepDataRestoresObjects(t *testing.T) { //nolint:paralleltest // the machine is shared
	p := crashing(t)
	p.run("up")
	t.Cleanup(func() { p.down() })
	p.invite()
	p.down("--keep-data")
	p.run("up")
	p.guestRuns()
}

func TestInterruptedUpCanBeResumed(t *testing.T) { //nolint:paralleltest // the machine is shared
	p := crashing(t)
	t.Cleanup(func() { p.down() })
	for _, after := range []time.Duration{200 * time.Millisecond, time.Second, 3 * time.Second} {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		if _, err := p.try(ctx, "up"); err == nil {
			t.Logf("up was done within %s", after)
		}
		cancel()
	}
	p.run("up")
	p.invite()
}
