// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/node"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/platform"
)

// smokeVariable enables the test that uses each part of the running cluster once. It works in a namespace of its own,
// beside other uses of the cluster.
const smokeVariable = "CLUSTER_SMOKE_TEST"

const smokeNamespace = "cluster-smoke"

func smoking(t *testing.T) program {
	t.Helper()
	if os.Getenv(smokeVariable) == "" {
		t.Skipf("set %s=1 to use each part of the running cluster once, as root", smokeVariable)
	}
	p := program{t: t, path: filepath.Join(t.TempDir(), "cluster")}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", p.path, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return p
}

// apply applies one of the manifests, with its placeholders replaced.
func (p program) apply(name string, values ...string) {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "smoke", name))
	if err != nil {
		p.t.Fatal(err)
	}
	file := filepath.Join(p.t.TempDir(), name)
	if err := os.WriteFile(file, []byte(strings.NewReplacer(values...).Replace(string(text))), 0o600); err != nil { //nolint:gosec // a temporary file
		p.t.Fatal(err)
	}
	p.run("kubectl", "apply", "-f", file)
}

func (p program) result(args ...string) string {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), p.path, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		p.t.Fatalf("cluster %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}

// eventually repeats until ok returns true; its text describes the last attempt.
func eventually(t *testing.T, limit time.Duration, what string, ok func() (string, bool)) {
	t.Helper()
	last, deadline := "", time.Now().Add(limit)
	for time.Now().Before(deadline) {
		var done bool
		if last, done = ok(); done {
			return
		}
		time.Sleep(time.Second)
	}
	t.Fatalf("timed out after %[2]s waiting for %[1]s; last: %[3]s", what, limit, last)
}

func fetch(t *testing.T, method, address, hostName string, body []byte, header map[string]string) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = hostName
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(resp.Body)
	if cerr := resp.Body.Close(); err == nil {
		err = cerr
	}
	if err == nil && resp.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s: %s", resp.Status, text)
	}
	return string(text), err
}

const cdevent = `{"context":{"specversion":"0.5.0","id":"1","source":"/smoke","type":"dev.cdevents.service.upgraded.0.2.0","timestamp":"2026-01-01T00:00:00Z"},"subject":{"id":"cluster-smoke/hello"}}`

var eventHeaders = map[string]string{
	"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/smoke", "ce-type": "dev.cdevents.service.upgraded.0.2.0", "Content-Type": "application/json",
}

func TestEveryPartWorks(t *testing.T) { //nolint:paralleltest // its parts share a namespace
	p := smoking(t)
	p.run("up", "--with", "all")
	t.Cleanup(func() {
		p.run("kubectl", "delete", "namespace", smokeNamespace, "--ignore-not-found")
		p.run("kubectl", "delete", "clusterrolebinding", "cluster-smoke-listener", "--ignore-not-found")
	})
	file := filepath.Join(t.TempDir(), "namespace.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: "+smokeNamespace+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.run("kubectl", "apply", "-f", file)
	t.Run("Serving splits traffic through the ingress", func(t *testing.T) { p.with(t).serving() })
	t.Run("Prometheus has the requests by Revision", func(t *testing.T) { p.with(t).prometheus() })
	t.Run("Triggers starts a TaskRun from a CDEvent", func(t *testing.T) { p.with(t).tekton() })
	t.Run("Eventing delivers a CDEvent through Broker and Trigger", func(t *testing.T) { p.with(t).eventing() })
}

func (p program) with(t *testing.T) program {
	t.Helper()
	return program{t: t, path: p.path}
}

func (p program) serving() {
	image := p.result("image", "-C", ".", "./testdata/hello")
	p.apply("serving.yaml", "IMAGE", image, "REVISION", "one", "TRAFFIC", "[{latestRevision: true, percent: 100}]")
	p.run("kubectl", "-n", smokeNamespace, "wait", "ksvc/hello", "--for=condition=Ready", "--timeout=180s")
	p.apply("serving.yaml", "IMAGE", image, "REVISION", "two",
		"TRAFFIC", "[{revisionName: hello-one, percent: 90}, {revisionName: hello-two, percent: 10}]")
	ingress := fmt.Sprintf("http://%s:%d", node.IP, platform.IngressPort)
	const sent = 400
	eventually(p.t, 2*time.Minute, "a split of 90 to 10", func() (string, bool) {
		seen := map[string]int{}
		for range sent {
			text, err := fetch(p.t, http.MethodGet, ingress, "hello."+smokeNamespace+"."+platform.Domain, nil, nil)
			if err != nil {
				return err.Error(), false
			}
			seen[text]++
		}
		return fmt.Sprint(seen), seen["hello-two"] > sent/20 && seen["hello-two"] < sent/5 && seen["hello-one"]+seen["hello-two"] == sent
	})
	if digest := p.result("kubectl", "-n", smokeNamespace, "get", "revision", "hello-one", "-o", "jsonpath={.status.containerStatuses[0].imageDigest}"); !strings.Contains(digest, "@sha256:") {
		p.t.Errorf("the digest was not resolved: %q", digest)
	}
}

func (p program) prometheus() {
	query := platform.PrometheusURL + "/api/v1/query?query=" + url.QueryEscape(`sum by (revision) (http_server_request_duration_seconds_count{namespace="`+smokeNamespace+`"})`)
	eventually(p.t, time.Minute, "counters of both Revisions", func() (string, bool) {
		text, err := fetch(p.t, http.MethodGet, query, "", nil, nil)
		if err != nil {
			return err.Error(), false
		}
		return text, strings.Contains(text, "hello-one") && strings.Contains(text, "hello-two")
	})
}

func (p program) tekton() {
	p.apply("tekton.yaml", "SHELL", node.RegistryHost+"/busybox:latest")
	p.run("kubectl", "-n", smokeNamespace, "wait", "eventlistener/cdevents", "--for=condition=Ready", "--timeout=180s")
	address := p.serviceAddress("el-cdevents", 8080)
	eventually(p.t, time.Minute, "an event accepted by the listener", func() (string, bool) {
		text, err := fetch(p.t, http.MethodPost, "http://"+address, "", []byte(cdevent), eventHeaders)
		return fmt.Sprint(text, err), err == nil
	})
	eventually(p.t, 2*time.Minute, "a TaskRun with the event's subject", func() (string, bool) {
		text := p.result("kubectl", "-n", smokeNamespace, "get", "taskrun", "-l", "smoke=event", "-o", "jsonpath={.items[*].status.results[*].value}")
		return text, strings.Contains(text, "cluster-smoke/hello")
	})
}

func (p program) eventing() {
	p.apply("eventing.yaml", "IMAGE", p.result("image", "-C", "part:eventing", "knative.dev/eventing/cmd/event_display"))
	for _, kind := range []string{"broker/default", "trigger/display"} {
		p.run("kubectl", "-n", smokeNamespace, "wait", kind, "--for=condition=Ready", "--timeout=180s")
	}
	ip := p.result("kubectl", "-n", "knative-eventing", "get", "service", "broker-ingress", "-o", "jsonpath={.spec.clusterIP}")
	eventually(p.t, 2*time.Minute, "the event at its display", func() (string, bool) {
		if text, err := fetch(p.t, http.MethodPost, "http://"+ip+"/"+smokeNamespace+"/default", "", []byte(cdevent), eventHeaders); err != nil {
			return fmt.Sprint(text, err), false
		}
		text := p.result("kubectl", "-n", smokeNamespace, "logs", "deployment/display")
		return text, strings.Contains(text, "dev.cdevents.service.upgraded.0.2.0")
	})
}

// serviceAddress is a Service's cluster address, which the machine can reach too, because it is the node.
func (p program) serviceAddress(name string, port int) string {
	p.t.Helper()
	var service struct {
		Spec struct {
			ClusterIP string `json:"clusterIP"`
		} `json:"spec"`
	}
	if err := json.Unmarshal([]byte(p.result("kubectl", "-n", smokeNamespace, "get", "service", name, "-o", "json")), &service); err != nil {
		p.t.Fatal(err)
	}
	return fmt.Sprintf("%s:%d", service.Spec.ClusterIP, port)
}
