// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const version = "v1.2.3"

// object is what kubectl needs to delete one.
type object struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   struct {
		Name         string            `yaml:"name"`
		GenerateName string            `yaml:"generateName"`
		Namespace    string            `yaml:"namespace"`
		Labels       map[string]string `yaml:"labels"`
	} `yaml:"metadata"`
}

func (o *object) String() string {
	return o.APIVersion + " " + o.Kind + " " + o.Metadata.Namespace + "/" + o.Metadata.Name
}

// repository is this one, with images for everything.
func repository(t *testing.T) (*release, []image) {
	t.Helper()
	r := &release{root: "../..", version: version, repository: "registry.example.com/x"}
	programs, err := r.programs()
	if err != nil {
		t.Fatal(err)
	}
	var built []image
	for _, p := range programs {
		reference := r.repository + "/" + filepath.Base(p) + ":" + version + "@sha256:0"
		built = append(built, image{program: p, reference: reference})
	}
	return r, built
}

func decode(t *testing.T, text string) []object {
	t.Helper()
	var all []object
	for d := yaml.NewDecoder(strings.NewReader(text)); ; {
		var o object
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if o.Kind != "" {
			all = append(all, o)
		}
	}
}

// These kinds have no namespace.
var clusterWide = []string{
	"Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition",
	"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration",
	"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
}

// "kubectl delete -f" takes each file of a release: it finds every object by its name.
func TestKubectlCanDelete(t *testing.T) {
	t.Parallel()
	r, built := repository(t)
	for _, m := range bundles {
		text, err := r.render(m, built)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text, "ko://") {
			t.Errorf("%s has an image that is not built", m.name)
		}
		all := decode(t, text)
		if len(all) == 0 {
			t.Errorf("%s is empty", m.name)
		}
		seen := map[string]bool{}
		for _, o := range all {
			switch namespaced := !slices.Contains(clusterWide, o.Kind); {
			case o.APIVersion == "" || o.Metadata.Name == "" || o.Metadata.GenerateName != "":
				t.Errorf("%s: %s cannot be deleted by its name", m.name, &o)
			case seen[o.String()]:
				t.Errorf("%s has %s twice", m.name, &o)
			case m.team && (o.Metadata.Namespace != "" || !namespaced):
				t.Errorf("%s: %s does not go into the namespace of -n", m.name, &o)
			case !m.team && namespaced != (o.Metadata.Namespace != ""):
				t.Errorf("%s: %s is in namespace %q", m.name, &o, o.Metadata.Namespace)
			}
			seen[o.String()] = true
			if got := o.Metadata.Labels["app.kubernetes.io/version"]; !m.team && got != version {
				t.Errorf("%s: %s has the version %q in its label", m.name, &o, got)
			}
		}
	}
}

// Each manifest of the repository is in a release, unless it is an example.
func TestEveryManifestIsReleased(t *testing.T) {
	t.Parallel()
	r, _ := repository(t)
	var released strings.Builder
	for _, m := range bundles {
		text, err := r.read(m)
		if err != nil {
			t.Fatal(err)
		}
		released.WriteString(text)
	}
	root := os.DirFS(r.root)
	err := fs.WalkDir(root, "config", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		example := strings.HasPrefix(path, "config/recipes/") || strings.Contains(path, "/0.1/samples/") ||
			strings.HasPrefix(path, "config/samples/template/")
		raw, err := fs.ReadFile(root, path)
		if err == nil && !example && !strings.Contains(released.String(), string(bytes.TrimSpace(raw))) {
			t.Errorf("%s is in no file of a release", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What README says to apply and delete is in a release. What is installed last goes first, and the controller goes
// last.
func TestReadmeUninstalls(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(raw), "### Uninstall")
	text, _, ends := strings.Cut(text, "\n## ")
	if !found || !ends {
		t.Fatal("README.md has no section Uninstall")
	}
	var deleted []string
	for _, line := range regexp.MustCompile(`(?m)^kubectl delete .*$`).FindAllString(text, -1) {
		for _, file := range regexp.MustCompile(`-f (\S+)`).FindAllStringSubmatch(line, -1) {
			deleted = append(deleted, filepath.Base(file[1]))
		}
	}
	if len(deleted) == 0 || deleted[len(deleted)-1] != "release.yaml" {
		t.Errorf("the controller does not go last: %v", deleted)
	}
	for _, m := range bundles {
		// The serverless mode has a page of its own, and samples are deleted where they were made.
		skip := strings.HasPrefix(m.name, "serverless") || m.name == "samples.yaml"
		if !skip && !slices.Contains(deleted, m.name) {
			t.Errorf("README.md does not delete %s", m.name)
		}
	}
	for _, name := range deleted {
		if !slices.ContainsFunc(bundles, func(m manifest) bool { return m.name == name }) {
			t.Errorf("README.md deletes %s, which no release has", name)
		}
	}
}

// Each file of a release that a document names is in one.
func TestDocumentsNameFilesOfARelease(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	file := regexp.MustCompile(`(?:\$RELEASE|knative-cdevents/releases/download/v[0-9.]+|\brelease)/([a-z-]+\.(?:yaml|txt))`)
	others := []string{"cdevents.yaml", "images.txt"}
	found := 0
	for _, page := range append(pages, "../../README.md") {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range file.FindAllStringSubmatch(string(raw), -1) {
			found++
			if !slices.Contains(others, name[1]) && !slices.ContainsFunc(bundles, func(m manifest) bool { return m.name == name[1] }) {
				t.Errorf("%s names %s, which no release has", page, name[1])
			}
		}
	}
	if found < 10 {
		t.Errorf("found only %d files", found)
	}
}

// "make install-serverless" and a release take the same manifests for each form of the serverless mode.
func TestServerlessFormsAreThoseOfInstall(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	forms := map[string]string{
		"knative": "serverless.yaml", "deployment": "serverless-deployment.yaml", "eventing": "serverless-eventing.yaml",
	}
	for form, file := range forms {
		line := regexp.MustCompile(`(?m)^serverless_` + form + ` := (.*)$`).FindStringSubmatch(string(makefile))
		if line == nil {
			t.Fatalf("the Makefile has no form %s", form)
		}
		var installed []string
		for _, source := range strings.Split(strings.ReplaceAll(line[1], "$(serverless_dir)", serverless), "-f ")[1:] {
			installed = append(installed, strings.TrimSuffix(strings.TrimSpace(source), "/"))
		}
		released := slices.IndexFunc(bundles, func(m manifest) bool { return m.name == file })
		if released < 0 || !slices.Equal(bundles[released].sources, installed) {
			t.Errorf("form %s is installed from %v, and no %s of a release has just these", form, installed, file)
		}
	}
}

// Artifact Hub reads FOLDER/NAME/VERSION/NAME.yaml beside the description of the repository. A Task there names an image
// that everybody can pull.
func TestCatalog(t *testing.T) {
	t.Parallel()
	r, built := repository(t)
	r.out = t.TempDir()
	if err := r.catalog(built); err != nil {
		t.Fatal(err)
	}
	found := untar(t, content(t, filepath.Join(r.out, "tekton-catalog.tar.gz")))
	for name, want := range map[string]string{
		"task/artifacthub-repo.yml":                                 "owners:",
		"task/knative-traffic/0.1/knative-traffic.yaml":             "image: registry.example.com/x/traffic:" + version + "@sha256:0\n",
		"task/knative-traffic/0.1/README.md":                        "# Knative traffic",
		"pipeline/artifacthub-repo.yml":                             "owners:",
		"pipeline/progressive-rollout/0.1/progressive-rollout.yaml": "kind: Pipeline",
	} {
		if !strings.Contains(found[name], want) {
			t.Errorf("%s is %q, want %q", name, found[name], want)
		}
	}
	for name, text := range found {
		if strings.Contains(text, "ko://") {
			t.Errorf("%s names an image that cannot be pulled", name)
		}
	}
}

func untar(t *testing.T, raw []byte) map[string]string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out[h.Name] = string(text)
	}
}
