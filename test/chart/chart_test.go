// SPDX-License-Identifier: Apache-2.0

// Package chart contains no code. Its tests render the Helm chart as Helm does, and compare it with the manifests in
// config. It is a module of its own, so that nothing else depends on Helm.
package chart

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	folder    = "../../charts/knative-cdevents"
	manifests = "../../config/"
	namespace = "knative-cdevents"
)

// objects are by kind, namespace and name.
type objects map[string]*unstructured.Unstructured

// add decodes the documents of a text. A duplicate key or object is an error.
func (o objects) add(t *testing.T, from, text string) {
	t.Helper()
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		content := map[string]any{}
		if err := yaml.UnmarshalStrict([]byte(document), &content); err != nil {
			t.Fatalf("%s: %v\n%s", from, err, document)
		}
		if len(content) == 0 {
			continue
		}
		u := &unstructured.Unstructured{Object: content}
		name := u.GetKind() + "/" + u.GetNamespace() + "/" + u.GetName()
		if o[name] != nil {
			t.Errorf("%s: duplicate %s", from, name)
		}
		o[name] = u
	}
}

// read reads the manifests that match the patterns.
func read(t *testing.T, patterns ...string) objects {
	t.Helper()
	out := objects{}
	for _, pattern := range patterns {
		files, err := filepath.Glob(manifests + pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			out.add(t, file, string(raw))
		}
	}
	return out
}

// render renders the chart with values in YAML, without its test.
func render(t *testing.T, into, given string) (objects, error) {
	t.Helper()
	chart, err := loader.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(given), &values); err != nil {
		t.Fatal(err)
	}
	release := common.ReleaseOptions{Name: "cdevents", Namespace: into, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(chart, values, release, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	// Helm deletes what is null, and is not strict: only the tests are, to find names that do not exist.
	texts, err := engine.Engine{Strict: !strings.Contains(given, ": null")}.RenderWithContext(t.Context(), chart, all)
	if err != nil {
		t.Fatal(err)
	}
	out := objects{}
	for _, file := range slices.Sorted(maps.Keys(texts)) {
		if strings.HasSuffix(file, ".yaml") && !strings.Contains(file, "/tests/") {
			out.add(t, file, texts[file])
		}
	}
	return out, nil
}

// rendered fails if the schema refuses the values.
func rendered(t *testing.T, given string) objects {
	t.Helper()
	out, err := render(t, namespace, given)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// core reads what an installation has. Helm itself makes the namespace. Definitions stay when the release goes.
func core(t *testing.T) objects {
	t.Helper()
	out := read(t, "*.yaml")
	delete(out, "Namespace//"+namespace)
	for _, u := range out {
		if u.GetKind() == "CustomResourceDefinition" {
			annotations := map[string]string{"helm.sh/resource-policy": "keep"}
			maps.Copy(annotations, u.GetAnnotations())
			u.SetAnnotations(annotations)
		}
	}
	controller := out["Deployment/"+namespace+"/controller"]
	if err := unstructured.SetNestedField(controller.Object, elections(t, rendered(t, "")),
		"spec", "template", "metadata", "annotations", electionsChecksum); err != nil {
		t.Fatal(err)
	}
	return out
}

// electionsChecksum restarts the controller when the settings of its elections change.
const electionsChecksum = "checksum/config-leader-election"

func elections(t *testing.T, all objects) string {
	t.Helper()
	out, found, err := unstructured.NestedString(all["Deployment/"+namespace+"/controller"].Object,
		"spec", "template", "metadata", "annotations", electionsChecksum)
	if err != nil || !found {
		t.Fatalf("the controller has no annotation %s: %v", electionsChecksum, err)
	}
	return out
}

func compare(t *testing.T, what string, want, got objects) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] == nil {
			t.Errorf("%s: the chart lacks %s", what, name)
		} else if diff := cmp.Diff(want[name].Object, got[name].Object); diff != "" {
			t.Errorf("%s: %s differs from the manifest (-):\n%s", what, name, diff)
		}
	}
	for name := range got {
		if want[name] == nil {
			t.Errorf("%s: no manifest has %s", what, name)
		}
	}
}

func TestDefaultsAreTheManifests(t *testing.T) {
	t.Parallel()
	want := core(t)
	if len(want) < 30 {
		t.Errorf("found only %d objects", len(want))
	}
	compare(t, "defaults", want, rendered(t, ""))
}

// Each part that is off by default equals its folder of manifests, and all of them together equal all of these.
func TestPartsAreTheManifests(t *testing.T) {
	t.Parallel()
	everything, all := core(t), ""
	for given, from := range map[string]string{
		"identities: {enabled: true}":      "optional/*.yaml",
		"environments: {enabled: true}":    "optional/environments/*.yaml",
		"networkPolicies: {enabled: true}": "optional/networkpolicies/*.yaml",
		"sidecar: {enabled: true}":         "optional/sidecar/*.yaml",
		"monitoring: {podMonitors: {enabled: true}, rules: {enabled: true}, dashboards: {enabled: true}}"://
		"optional/monitoring/*.yaml",
		"tekton: {enabled: true}": "tekton/*.yaml",
	} {
		want, part := core(t), read(t, from)
		maps.Copy(want, part)
		maps.Copy(everything, part)
		all += given + "\n"
		compare(t, given, want, rendered(t, given))
	}
	compare(t, "all", everything, rendered(t, all))
}

// The Task and the Pipeline of a rollout are in each namespace that is named, and nowhere else.
func TestRolloutsInNamespaces(t *testing.T) {
	t.Parallel()
	want := core(t)
	for _, u := range read(t, "tekton/task/*/*/*.yaml", "tekton/pipeline/*/*/*.yaml") {
		for _, in := range []string{"cart", "shop"} {
			copied := u.DeepCopy()
			copied.SetNamespace(in)
			want[u.GetKind()+"/"+in+"/"+u.GetName()] = copied
		}
	}
	compare(t, "rollouts", want, rendered(t, "tekton: {namespaces: [cart, shop]}"))
}

// In another namespace, nothing refers to the namespace of the manifests.
func TestAnotherNamespace(t *testing.T) {
	t.Parallel()
	got, err := render(t, "delivery",
		"sidecar: {enabled: true}\nnetworkPolicies: {enabled: true}\nmonitoring: {podMonitors: {enabled: true}}")
	if err != nil {
		t.Fatal(err)
	}
	for name, u := range got {
		text := strings.ReplaceAll(fmt.Sprint(u.Object), "app.kubernetes.io/name:"+namespace, "")
		for _, reference := range []string{
			"namespace:" + namespace + " ", "namespace:" + namespace + "]", "resourceNames:[" + namespace + "]", namespace + ".svc",
		} {
			if strings.Contains(text, reference) {
				t.Errorf("%s refers to %s", name, reference)
			}
		}
		if n := u.GetNamespace(); n != "" && n != "delivery" {
			t.Errorf("%s is in %s", name, n)
		}
	}
	env := fmt.Sprint(container(t, got, "sidecar-injector")["env"])
	if !strings.Contains(env, "http://controller.delivery.svc") {
		t.Errorf("sidecars look for the controller elsewhere: %s", env)
	}
}

func TestLint(t *testing.T) {
	t.Parallel()
	for _, m := range lint.RunAll(folder, nil, namespace).Messages {
		t.Error(m)
	}
}

// Catalogs load the chart's icon from this repository.
func TestIcon(t *testing.T) {
	t.Parallel()
	c, err := loader.LoadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	path, found := strings.CutPrefix(c.Metadata.Icon, "https://raw.githubusercontent.com/knative-cdevents/knative-cdevents/main/")
	if !found {
		t.Fatalf("the icon is %q, which is no file of this repository", c.Metadata.Icon)
	}
	icon, err := os.ReadFile(filepath.Join("../..", path))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(icon), "<svg ") {
		t.Errorf("%s is no SVG", path)
	}
}
