// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// piece is an object in config/tekton, which teams install in their namespaces.
type piece struct {
	*unstructured.Unstructured
	file string
}

// environmentFlow is the folder of the flow that begins with an environment.
const environmentFlow = "environments"

// tekton reads config/tekton without the flow that begins with an environment. Tekton's own webhooks
// check the fields in the end-to-end tests.
func tekton(t *testing.T) []piece {
	t.Helper()
	return slices.DeleteFunc(allTekton(t), ofEnvironments)
}

func ofEnvironments(p piece) bool { return strings.HasPrefix(p.file, "tekton/"+environmentFlow+"/") }

// allTekton reads all of config/tekton. A duplicate key is an error.
func allTekton(t *testing.T) []piece {
	t.Helper()
	var all []piece
	err := filepath.WalkDir("tekton", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		all = append(all, pieces(t, path)...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// pieces reads the manifests of one folder, whatever their kinds. A duplicate key is an error.
func pieces(t *testing.T, folder string) []piece {
	t.Helper()
	files, err := filepath.Glob(folder + "/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []piece
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range bytes.SplitSeq(content, []byte("\n---\n")) {
			object := map[string]any{}
			if err := yaml.UnmarshalStrict(document, &object); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			all = append(all, piece{&unstructured.Unstructured{Object: object}, file})
		}
	}
	return all
}

// one returns the installed object of a kind; samples do not count.
func one(t *testing.T, kind string) piece {
	t.Helper()
	return oneOf(t, tekton(t), kind)
}

func oneOf(t *testing.T, all []piece, kind string) piece {
	t.Helper()
	var found []piece
	for _, p := range all {
		if p.GetKind() == kind && !strings.Contains(p.file, "/samples/") {
			found = append(found, p)
		}
	}
	if len(found) != 1 {
		t.Fatalf("found %d objects of kind %s", len(found), kind)
	}
	return found[0]
}

// at returns the value at a path of fields.
func at[T any](t *testing.T, from any, path ...string) T {
	t.Helper()
	for _, field := range path {
		m, ok := from.(map[string]any)
		if !ok {
			t.Fatalf("there is no %s in %v", field, from)
		}
		from = m[field]
	}
	out, ok := from.(T)
	if !ok {
		t.Fatalf("%s is a %T: %v", strings.Join(path, "."), from, from)
	}
	return out
}

func (p piece) list(t *testing.T, path ...string) []map[string]any {
	t.Helper()
	var out []map[string]any
	for _, item := range at[[]any](t, p.Object, path...) {
		out = append(out, at[map[string]any](t, item))
	}
	return out
}

// pairs returns the values of a list of names and values.
func pairs(t *testing.T, list any) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, item := range at[[]any](t, list) {
		value, _ := at[map[string]any](t, item)["value"].(string)
		out[at[string](t, item, "name")] = value
	}
	return out
}

func TestTektonObjectsApplyToAnyNamespace(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, p := range allTekton(t) {
		if strings.Contains(p.file, "/samples/") {
			continue
		}
		name := p.GetKind() + "/" + p.GetName()
		if seen[name] {
			t.Errorf("%s: duplicate %s", p.file, name)
		}
		seen[name] = true
		if p.GetNamespace() != "" && p.GetNamespace() != namespace {
			t.Errorf("%s: %s is in namespace %s", p.file, name, p.GetNamespace())
		}
		if p.GetLabels()["app.kubernetes.io/name"] != namespace && p.GetKind() != "CanaryGate" {
			t.Errorf("%s: %s lacks label app.kubernetes.io/name", p.file, name)
		}
	}
}

// Artifact Hub reads KIND/NAME/VERSION/NAME.yaml with a README beside it.
func TestTektonCatalog(t *testing.T) {
	t.Parallel()
	layout := regexp.MustCompile(`^tekton/(task|pipeline)/([a-z-]+)/(\d+\.\d+)/([a-z-]+)\.yaml$`)
	for _, kind := range []string{"Task", "Pipeline"} {
		p := one(t, kind)
		m := layout.FindStringSubmatch(p.file)
		if m == nil || m[1] != strings.ToLower(kind) || m[2] != p.GetName() || m[4] != p.GetName() {
			t.Fatalf("%s is the wrong path for %s %s", p.file, kind, p.GetName())
		}
		if v := p.GetLabels()["app.kubernetes.io/version"]; !regexp.MustCompile(`^` + regexp.QuoteMeta(m[3]) + `\.\d+$`).MatchString(v) {
			t.Errorf("%s: version %q", p.file, v)
		}
		for _, name := range []string{"pipelines.minVersion", "categories", "tags", "displayName", "platforms"} {
			if p.GetAnnotations()["tekton.dev/"+name] == "" {
				t.Errorf("%s: missing tekton.dev/%s", p.file, name)
			}
		}
		if at[string](t, p.Object, "spec", "description") == "" {
			t.Errorf("%s: missing description", p.file)
		}
		dir := filepath.Dir(p.file)
		for _, path := range []string{dir + "/README.md", dir + "/samples", "tekton/" + m[1] + "/artifacthub-repo.yml"} {
			if _, err := os.Stat(path); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestTektonTask(t *testing.T) {
	t.Parallel()
	task := one(t, "Task")
	steps := task.list(t, "spec", "steps")
	if len(steps) != 1 {
		t.Fatalf("%d steps", len(steps))
	}
	checkStep(t, steps[0], "cmd/traffic")
	used := fmt.Sprint(steps[0]["env"])
	for _, kind := range []string{"params", "results"} {
		for _, declared := range task.list(t, "spec", kind) {
			if name := at[string](t, declared, "name"); !strings.Contains(used, "$("+kind+"."+name) {
				t.Errorf("%s: %s is not passed to the step", kind, name)
			}
		}
	}
}

// checkStep checks that a step runs a command of ours, without rights in its pod.
func checkStep(t *testing.T, step map[string]any, command string) {
	t.Helper()
	image := at[string](t, step, "image")
	if path, ok := strings.CutPrefix(image, "ko://github.com/knative-cdevents/knative-cdevents/"); !ok || path != command {
		t.Errorf("image %s is not %s", image, command)
	} else if _, err := os.Stat(filepath.Join("..", path, "main.go")); err != nil {
		t.Error(err)
	}
	if step["script"] != nil || step["args"] != nil || strings.Contains(fmt.Sprint(step["command"]), "$(") {
		t.Error("a param is substituted into a command")
	}
	security := at[map[string]any](t, step, "securityContext")
	want := map[string]any{
		"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true, "runAsUser": float64(65532),
		"capabilities": map[string]any{"drop": []any{"ALL"}}, "seccompProfile": map[string]any{"type": "RuntimeDefault"},
	}
	if fmt.Sprint(security) != fmt.Sprint(want) {
		t.Errorf("it runs with %v", security)
	}

	source, err := filepath.Glob("../" + command + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var code []byte
	for _, file := range source {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code = append(code, content...)
	}
	for name := range pairs(t, step["env"]) {
		if !bytes.Contains(code, []byte(`"`+strings.TrimPrefix(name, "RESULT_")+`"`)) {
			t.Errorf("%s is not used", name)
		}
	}
}

// Permissions to move traffic name the Services. Nothing here reads a Secret or impersonates
// anyone.
func TestTektonPermissions(t *testing.T) {
	t.Parallel()
	writes := map[string]string{
		"Role/rollout":          "patch services",
		"Role/rollout-listener": "create pipelineruns",
	}
	for _, p := range tekton(t) {
		if p.GetKind() != "Role" && p.GetKind() != "ClusterRole" || strings.HasSuffix(p.file, "customruns.yaml") {
			continue
		}
		var did []string
		for _, rule := range p.list(t, "rules") {
			text := fmt.Sprint(rule)
			if strings.Contains(text, "*") || strings.Contains(text, "secrets") || strings.Contains(text, "impersonate") {
				t.Errorf("%s grants %s", p.file, text)
			}
			for _, verb := range at[[]any](t, rule, "verbs") {
				if slices.Contains(reading, fmt.Sprint(verb)) {
					continue
				}
				did = append(did, fmt.Sprint(verb, " ", strings.Trim(fmt.Sprint(rule["resources"]), "[]")))
				if verb == "patch" && rule["resourceNames"] == nil {
					t.Errorf("%s: %v of any", p.file, verb)
				}
			}
		}
		if got, want := strings.Join(did, ", "), writes[p.GetKind()+"/"+p.GetName()]; got != want {
			t.Errorf("%s %s may %q, want %q", p.GetKind(), p.GetName(), got, want)
		}
	}
}
