// SPDX-License-Identifier: Apache-2.0

package build

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/registry"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/store"
)

// KoTarget is the repository that ko pushes to, and its base image.
type KoTarget struct {
	Registry *registry.Registry
	Base     string
}

// koSettings replaces the .ko.yaml in the working directory: other projects' settings name base images that cannot be
// pulled here. The flag is that of this project's .ko.yaml, so that tests run what is shipped; other projects lose
// gRPC's request traces.
const koSettings = "defaultFlags:\n  - -tags=grpcnotrace\n"

func (b *Builder) koRun(ctx context.Context, t KoTarget, repo string) (string, []string, error) {
	if err := t.Registry.Ready(ctx); err != nil {
		return "", nil, fmt.Errorf("the cluster's registry does not answer; run \"cluster up\" first: %w", err)
	}
	dir, err := b.Dir(ctx, Ko)
	if err != nil {
		return "", nil, err
	}
	if err := store.PublishFile(filepath.Join(b.store.Ko(), ".ko.yaml"), []byte(koSettings), 0o600); err != nil {
		return "", nil, err
	}
	env := append(goEnv(), "KO_DOCKER_REPO="+t.Registry.Host+"/"+repo, "KO_DEFAULTBASEIMAGE="+t.Base, "KO_CONFIG_PATH="+b.store.Ko())
	return filepath.Join(dir, "ko"), env, nil
}

func koFlags() []string {
	return []string{"--insecure-registry", "--base-import-paths", "--sbom=none", "--platform=linux/" + runtime.GOARCH}
}

// Images builds Go programs, given by import path, in the module at dir, and returns the image references.
func (b *Builder) Images(ctx context.Context, t KoTarget, dir, repo string, paths ...string) ([]string, error) {
	ko, env, err := b.koRun(ctx, t, repo)
	if err != nil {
		return nil, err
	}
	log := b.store.Log("image-" + repo)
	step := b.say.Begin("building images of "+strings.Join(paths, " "), "log: "+log)
	var out bytes.Buffer
	r := run{dir: dir, log: log, env: env, out: &out, saw: func(line string) { step.Note("%s; log: %s", line, log) }}
	err = r.do(ctx, ko, append(append([]string{"build"}, koFlags()...), paths...)...)
	return strings.Fields(out.String()), step.End(err)
}

// Resolve replaces the ko:// references in manifests by images built from the module at dir.
func (b *Builder) Resolve(ctx context.Context, t KoTarget, dir, repo, manifests string) (string, error) {
	if !strings.Contains(manifests, "ko://") {
		return manifests, nil
	}
	ko, env, err := b.koRun(ctx, t, repo)
	if err != nil {
		return "", err
	}
	log := b.store.Log("image-" + repo)
	step := b.say.Begin("building the images of "+repo, "log: "+log)
	var out bytes.Buffer
	r := run{
		dir: dir, log: log, env: env, in: strings.NewReader(manifests), out: &out,
		saw: func(line string) { step.Note("%s; log: %s", line, log) },
	}
	err = r.do(ctx, ko, append(append([]string{"resolve"}, koFlags()...), "-f", "-")...)
	return out.String(), step.End(err)
}

var koRef = regexp.MustCompile(`ko://[A-Za-z0-9._/-]+`)

// ResolvePart replaces the ko:// references in manifests by images of a pinned part.
func (b *Builder) ResolvePart(ctx context.Context, t KoTarget, part, manifests string) (string, error) {
	images, err := b.PartImages(ctx, t, part, koRef.FindAllString(manifests, -1))
	if err != nil {
		return "", err
	}
	return koRef.ReplaceAllStringFunc(manifests, func(ref string) string { return images[ref] }), nil
}

// PartImages builds the images of a pinned part for ko:// references. It stores the result, and reuses it as long as
// the registry holds all of them; other changes in the manifests cause no rebuild.
func (b *Builder) PartImages(ctx context.Context, t KoTarget, part string, refs []string) (map[string]string, error) {
	refs = slices.Compact(slices.Sorted(slices.Values(refs)))
	dir := b.PartDir(part)
	version, err := b.goVersion(ctx, dir)
	if err != nil {
		return nil, err
	}
	key, err := partKey(dir, version, t.Base, t.Registry.Host, strings.Join(refs, " "))
	if err != nil {
		return nil, err
	}
	memory := b.store.Image(part, key)
	images := map[string]string{}
	if data, err := os.ReadFile(memory); err == nil && json.Unmarshal(data, &images) == nil && allThere(ctx, t, images) { //nolint:gosec // in the cache
		return images, nil
	}
	// ko itself may have to be built first, in a build slot of its own.
	if _, err := b.Dir(ctx, Ko); err != nil {
		return nil, err
	}
	// This build needs a slot too: builds in the background go first.
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	// ko resolves any YAML, so the references alone are enough.
	text, err := b.Resolve(ctx, t, dir, part, strings.Join(refs, "\n---\n"))
	if err != nil {
		return nil, err
	}
	if images, err = pair(refs, text); err != nil {
		return nil, err
	}
	data, err := json.Marshal(images)
	if err != nil {
		return nil, fmt.Errorf("remembering images: %w", err)
	}
	return images, store.PublishFile(memory, data, 0o600)
}

// pair maps references to the documents in ko's output, which have the same order.
func pair(refs []string, answer string) (map[string]string, error) {
	images := map[string]string{}
	var docs []string
	for doc := range strings.SplitSeq(answer, "---") {
		if doc = strings.TrimSpace(doc); doc != "" {
			docs = append(docs, doc)
		}
	}
	if len(docs) != len(refs) {
		return nil, fmt.Errorf("ko returned %d images for %d references:\n%s", len(docs), len(refs), answer)
	}
	for i, ref := range refs {
		images[ref] = docs[i]
	}
	return images, nil
}

func allThere(ctx context.Context, t KoTarget, images map[string]string) bool {
	for _, ref := range images {
		if !t.Registry.Has(ctx, ref) {
			return false
		}
	}
	return true
}
