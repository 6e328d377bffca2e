// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// manifest is a file of the release that "kubectl apply -f" takes.
type manifest struct {
	name string
	// sources are files, or folders whose files are taken in order of their names, without those of inner folders.
	sources []string
	// team says that it is applied to a namespace of a team, with -n, and may be changed before.
	team bool
}

const serverless = "config/optional/serverless"

// bundles are all files with manifests. Whoever adds a folder to config adds it here; a test finds what is in none.
var bundles = []manifest{
	{name: "release.yaml", sources: []string{"config"}},
	{name: "monitoring.yaml", sources: []string{"config/optional/monitoring"}},
	{name: "environments.yaml", sources: []string{"config/optional/environments"}},
	{name: "identities.yaml", sources: []string{"config/optional/clusterrole-identities.yaml"}},
	{name: "networkpolicies.yaml", sources: []string{"config/optional/networkpolicies"}},
	{name: "sidecar.yaml", sources: []string{"config/optional/sidecar"}},
	{name: "serverless.yaml", sources: []string{serverless}},
	{name: "serverless-deployment.yaml", sources: []string{
		serverless + "/200-roles.yaml", serverless + "/500-doorbell.yaml", serverless + "/deployment",
	}},
	{name: "serverless-eventing.yaml", sources: []string{
		serverless + "/200-roles.yaml", serverless + "/500-core.yaml", serverless + "/eventing",
	}},
	{name: "tekton.yaml", sources: []string{"config/tekton"}},
	{name: "tekton-rollout.yaml", team: true, sources: []string{
		"config/tekton/task/knative-traffic/0.1/knative-traffic.yaml",
		"config/tekton/pipeline/progressive-rollout/0.1/progressive-rollout.yaml",
		"config/tekton/flow",
	}},
	{name: "tekton-environments.yaml", team: true, sources: []string{"config/tekton/environments"}},
	{name: "samples.yaml", team: true, sources: []string{"config/samples"}},
}

var koReference = regexp.MustCompile(`ko://([A-Za-z0-9._/-]+)`)

// read returns the documents of a bundle as they are in the repository.
func (r *release) read(m manifest) (string, error) {
	var paths []string
	for _, s := range m.sources {
		path := filepath.Join(r.root, s)
		if strings.HasSuffix(s, ".yaml") {
			paths = append(paths, path)
			continue
		}
		found, err := filepath.Glob(filepath.Join(path, "*.yaml"))
		if err != nil || len(found) == 0 {
			return "", fmt.Errorf("%s takes the manifests in %s, and there are none", m.name, s)
		}
		slices.Sort(found)
		paths = append(paths, found...)
	}
	var out strings.Builder
	for _, path := range paths {
		raw, err := os.ReadFile(path) //nolint:gosec // a file of the repository
		if err != nil {
			return "", fmt.Errorf("reading a manifest: %w", err)
		}
		text := strings.TrimPrefix(strings.TrimSpace(string(raw)), "---\n")
		fmt.Fprintf(&out, "---\n%s\n", strings.TrimSuffix(text, "\n---"))
	}
	return out.String(), nil
}

// render puts the version into labels, and images for ko://.
func (r *release) render(m manifest, built []image) (string, error) {
	text, err := r.read(m)
	if err != nil {
		return "", err
	}
	const label = "app.kubernetes.io/version: "
	text, err = resolve(strings.ReplaceAll(text, label+"devel", fmt.Sprintf("%s%q", label, r.version)), built)
	if err != nil {
		return "", fmt.Errorf("%s: %w", m.name, err)
	}
	return text, nil
}

// resolve puts images for ko:// in YAML.
func resolve(text string, built []image) (string, error) {
	for _, i := range built {
		text = strings.ReplaceAll(text, "ko://"+i.program+"\n", i.reference+"\n")
	}
	if left := koReference.FindString(text); left != "" {
		return "", fmt.Errorf("it names %s, which was not built", left)
	}
	return text, nil
}

func (r *release) manifests(built []image) error {
	for _, m := range bundles {
		text, err := r.render(m, built)
		if err != nil {
			return err
		}
		if err := r.file(m.name, []byte(text)); err != nil {
			return err
		}
	}
	return r.catalog(built)
}

// catalog writes the Task and the Pipeline in the form that Artifact Hub and Git resolvers read, with images for ko://.
func (r *release) catalog(built []image) error {
	var files []file
	for _, kind := range []string{"task", "pipeline"} {
		err := filepath.WalkDir(filepath.Join(r.root, "config", "tekton", kind), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			raw, err := os.ReadFile(path) //nolint:gosec // a file of the repository
			if err != nil {
				return err //nolint:wrapcheck // it names the file
			}
			text, err := resolve(string(raw), built)
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			name, err := filepath.Rel(filepath.Join(r.root, "config", "tekton"), path)
			files = append(files, file{name: filepath.ToSlash(name), mode: 0o644, content: []byte(text)})
			return err //nolint:wrapcheck // it names the file
		})
		if err != nil {
			return fmt.Errorf("reading the catalog of Tekton: %w", err)
		}
	}
	raw, err := gzipped(files)
	if err != nil {
		return err
	}
	return r.file("tekton-catalog.tar.gz", raw)
}
