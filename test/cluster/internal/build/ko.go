package build

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/registry"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/store"
)

// KoTarget is where ko pushes to and what it builds on.
type KoTarget struct {
	Registry *registry.Registry
	Base     string
}

// koSettings are in a folder of our own: ko obeys the .ko.yaml of the folder where it runs, and those of
// other projects name bases that cannot be pulled here.
const koSettings = "# Deliberately without settings: everything is said on ko's command line.\n"

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

// Images builds Go programs, named by import path, in the module at dir and returns their references.
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

// Resolve replaces the ko:// references of manifests by images that it builds from the module at dir.
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

var digestRef = regexp.MustCompile(`[0-9A-Za-z.:-]+(/[0-9A-Za-z._-]+)+@sha256:[0-9a-f]{64}`)

// ResolvePart is Resolve for a pinned part. It remembers the result, as long as the registry still holds
// every image that the result names.
func (b *Builder) ResolvePart(ctx context.Context, t KoTarget, part, manifests string) (string, error) {
	dir := b.PartDir(part)
	version, err := b.goVersion(ctx, dir)
	if err != nil {
		return "", err
	}
	key, err := partKey(dir, version, t.Base, t.Registry.Host, manifests)
	if err != nil {
		return "", err
	}
	memory := b.store.YAML(part, key)
	if text, err := os.ReadFile(memory); err == nil && b.allThere(ctx, t, string(text)) { //nolint:gosec // in the cache
		return string(text), nil
	}
	// Ko itself may have to be built, in a slot of its own.
	if _, err := b.Dir(ctx, Ko); err != nil {
		return "", err
	}
	// No more builds at once than slots: what runs in the background goes first.
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	text, err := b.Resolve(ctx, t, dir, part, manifests)
	if err != nil {
		return "", err
	}
	return text, store.PublishFile(memory, []byte(text), 0o600)
}

func (b *Builder) allThere(ctx context.Context, t KoTarget, text string) bool {
	seen := map[string]bool{}
	for _, ref := range digestRef.FindAllString(text, -1) {
		if seen[ref] || !strings.HasPrefix(ref, t.Registry.Host+"/") {
			continue
		}
		seen[ref] = true
		if !t.Registry.Has(ctx, ref) {
			return false
		}
	}
	return true
}
