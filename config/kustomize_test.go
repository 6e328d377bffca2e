// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// kustomized are the folders that have a Kustomization.
var kustomized = []string{
	".", "optional/environments", "optional/monitoring", "optional/networkpolicies", "optional/sidecar", "tekton",
}

// kubectl apply -k installs the objects that kubectl apply -f does, without a change.
func TestKustomizeBuildsTheManifests(t *testing.T) {
	t.Parallel()
	for _, folder := range kustomized {
		built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]map[string]any{}
		for _, r := range built.Resources() {
			object, err := r.Map()
			if err != nil {
				t.Fatal(err)
			}
			got[r.GetKind()+"/"+r.GetNamespace()+"/"+r.GetName()] = plain(t, object)
		}
		want := map[string]map[string]any{}
		for _, p := range pieces(t, folder) {
			want[p.GetKind()+"/"+p.GetNamespace()+"/"+p.GetName()] = plain(t, p.Object)
		}
		if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
			t.Errorf("%s, %d objects:\n%s", folder, len(want), diff)
		}
	}
}

// kubectl apply -f and ko read all files with an ending of YAML or JSON in a folder: a Kustomization is none of them.
func TestKustomizationsAreNoManifests(t *testing.T) {
	t.Parallel()
	for _, folder := range kustomized {
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		var manifests []string
		for _, e := range entries {
			if slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
				manifests = append(manifests, e.Name())
			}
		}
		raw, err := os.ReadFile(filepath.Join(folder, "Kustomization"))
		if err != nil {
			t.Fatal(err)
		}
		var named struct{ Resources []string }
		if err := yaml.Unmarshal(raw, &named); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(named.Resources, manifests) {
			t.Errorf("%s names %v, and the manifests are %v", folder, named.Resources, manifests)
		}
	}
}

// plain has the types of decoded YAML only.
func plain(t *testing.T, object map[string]any) map[string]any {
	t.Helper()
	raw, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if err := yaml.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
