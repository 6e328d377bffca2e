// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestParseAddsWhatPartsNeedInTheOrderOfInstalling(t *testing.T) {
	t.Parallel()
	for list, want := range map[string][]Part{
		"":                   {},
		"prometheus":         {Prometheus},
		"tekton":             {DNS, Tekton},
		"eventing, serving":  {DNS, Serving, Eventing},
		"all":                order,
		"crossplane,all":     append(slices.Clone(order), Crossplane),
		"crossplane":         {DNS, Crossplane},
		"tekton,prometheus,": {DNS, Prometheus, Tekton},
		"clusterapi-1.10":    {DNS, ClusterAPI110},
		"all,clusterapi":     append(slices.Clone(order), ClusterAPI),
	} {
		got, err := Parse(list)
		if err != nil || len(got) != len(want) || (len(want) > 0 && !reflect.DeepEqual(got, want)) {
			t.Errorf("%q: got %v, %v", list, got, err)
		}
	}
	if _, err := Parse("clusterapi,clusterapi-1.10"); err == nil || !strings.Contains(err.Error(), "name one of them") {
		t.Errorf("got %v", err)
	}
	if _, err := Parse("servign"); err == nil || !strings.Contains(err.Error(), `no part "servign"; there are serving`) {
		t.Errorf("got %v", err)
	}
}

const stream = `# a comment before
apiVersion: v1
kind: ConfigMap
metadata: {name: config-x}
---
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  template:
    spec:
      containers:
      - {name: a, image: "ko://x", args: ["-shell-image", "far/away", "-other", "kept"], resources: {requests: {cpu: "1", memory: 1Gi}, limits: {cpu: "2"}}}
      - {name: b}
`

func objects(t *testing.T) []object {
	t.Helper()
	all, err := decode(stream)
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	return all
}

func TestModestTouchesRequestsForCPUOnly(t *testing.T) {
	t.Parallel()
	all := objects(t)
	modest(all)
	want := map[string]any{
		"requests": map[string]any{"cpu": smallRequest, "memory": "1Gi"},
		"limits":   map[string]any{"cpu": "2"},
	}
	if got := containers(all[1])[0]["resources"]; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestConfigureRejectsMissingConfigMaps(t *testing.T) {
	t.Parallel()
	all := objects(t)
	if err := configure(all, map[string]map[string]string{"config-x": {"key": "value"}}); err != nil {
		t.Fatal(err)
	}
	if got := text(all[0], "data", "key"); got != "value" {
		t.Errorf("got %q", got)
	}
	if err := configure(all, map[string]map[string]string{"config-y": {"key": "value"}}); err == nil {
		t.Error("a setting without a ConfigMap was dropped")
	}
}

func TestUseShellReplacesOneArgument(t *testing.T) {
	t.Parallel()
	all := objects(t)
	useShell(all, "near/by")
	want := []any{"-shell-image", "near/by", "-other", "kept"}
	if got := containers(all[1])[0]["args"]; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestEncodeDecodesAgain(t *testing.T) {
	t.Parallel()
	all := objects(t)
	text, err := encode(all)
	if err != nil {
		t.Fatal(err)
	}
	again, err := decode(text)
	if err != nil || !reflect.DeepEqual(all, again) {
		t.Errorf("got %v, %v", again, err)
	}
}

func TestReadNamesTheBrokenFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{"b.yaml": "kind: B\n", "a.yml": "kind: A\n", "c.txt": ": :", "skipped.yaml": ": :"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	skip := func(p string) bool { return filepath.Base(p) == "skipped.yaml" }
	all, err := read(skip, dir)
	if err != nil || len(all) != 2 || all[0].kind() != "A" {
		t.Errorf("got %v, %v", all, err)
	}
	if _, err := read(nil, dir); err == nil || !strings.Contains(err.Error(), "skipped.yaml") {
		t.Errorf("got %v", err)
	}
}

func TestReadSkipsSubfolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "optional"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"asked", "optional/unasked"} {
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte("kind: "+filepath.Base(name)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{dir: "asked", dir + "/": "asked", filepath.Join(dir, "optional", "unasked.yaml"): "unasked"} {
		if text, err := Read(path); err != nil || strings.TrimSpace(strings.ReplaceAll(text, "---", "")) != "kind: "+want {
			t.Errorf("%s: got %q, %v", path, text, err)
		}
	}
}

func TestOnlyTemporaryErrorsAreRetried(t *testing.T) {
	t.Parallel()
	for err, want := range map[string]bool{
		`no matches for kind "Image" in version "caching.internal.knative.dev/v1alpha1"`: true,
		`failed calling webhook "config.webhook.serving.knative.dev"`:                    true,
		`Error from server (Forbidden): user cannot patch resource`:                      false,
		`error: error validating data: unknown field "spec.x"`:                           false,
	} {
		if got := passing(err); got != want {
			t.Errorf("%s: got %v", err, got)
		}
	}
}

func TestEmbeddedManifestsAreComplete(t *testing.T) {
	t.Parallel()
	values := map[string]any{
		"Image": "i", "DNS": "10.96.0.10", "IngressPort": 1, "User": "u", "Targets": "t", "Kubelet": "k", "Server": "s", "Rules": "r", "CA": "c", "Cert": "c", "Key": "k", "Provider": "p", "Function": "f",
	}
	entries, err := files.ReadDir("files")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := embedded(e.Name(), values)
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := decode(text); err != nil {
			t.Errorf("%s: %v", e.Name(), err)
		}
	}
}
