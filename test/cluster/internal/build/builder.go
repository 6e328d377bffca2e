// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/report"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/store"
)

// Builder builds units, with as many concurrent builds as the machine can handle.
type Builder struct {
	store *store.Store
	say   *report.Reporter
	parts string
	slots chan struct{}
	// chosen are the versions of parts of which there are several.
	chosen map[string]string

	mu       sync.Mutex
	running  map[string]*future
	versions map[string]string
}

type future struct {
	done chan struct{}
	dir  string
	err  error
}

// New returns a Builder that stores its results in st. It begins with what an earlier Builder has Chosen, if anything.
func New(st *store.Store, say *report.Reporter, chosen map[string]string) (*Builder, error) {
	parts, err := Parts()
	if err != nil {
		return nil, err
	}
	b := &Builder{
		store: st, say: say, parts: parts,
		slots:  make(chan struct{}, parallel()),
		chosen: map[string]string{}, running: map[string]*future{}, versions: map[string]string{},
	}
	maps.Copy(b.chosen, chosen)
	return b, nil
}

// Store returns the store of the builder's results.
func (b *Builder) Store() *store.Store { return b.store }

// PartDir returns the folder of a pinned module, in the version that was chosen.
func (b *Builder) PartDir(part string) string {
	if v := b.chosen[part]; v != "" && v != newest {
		part += "-" + v
	}
	return filepath.Join(b.parts, part)
}

// Begin starts building units in the background; Dir waits for one.
func (b *Builder) Begin(ctx context.Context, units ...Unit) {
	for _, u := range units {
		b.future(ctx, u)
	}
}

// Dir returns the folder with the unit's binaries, built if need be.
func (b *Builder) Dir(ctx context.Context, u Unit) (string, error) {
	f := b.future(ctx, u)
	select {
	case <-f.done:
		return f.dir, f.err
	case <-ctx.Done():
		// The compiler was interrupted too. Wait for it, so that it does not interfere with the caller's clean-up.
		<-f.done
		return "", fmt.Errorf("building %s was interrupted (what is compiled is kept, run the same again): %w", u.Name, ctx.Err())
	}
}

func (b *Builder) future(ctx context.Context, u Unit) *future {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f := b.running[u.Name]; f != nil {
		return f
	}
	f := &future{done: make(chan struct{})}
	b.running[u.Name] = f
	go func() {
		defer close(f.done)
		f.dir, f.err = b.build(ctx, u)
	}()
	return f
}

func (b *Builder) build(ctx context.Context, u Unit) (string, error) {
	dir := b.PartDir(u.Part)
	version, err := b.goVersion(ctx, dir)
	if err != nil {
		return "", err
	}
	commands := b.stamp(u)
	key, err := partKey(dir, version, flags(commands))
	if err != nil {
		return "", err
	}
	out := b.store.Bin(u.Name, key)
	if store.Exists(out) {
		return out, nil
	}
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	// Another command may be building the same unit; do not build it twice.
	unlock, err := store.Lock(out+".lock", func() { b.say.Say("waiting for another command that builds %s", u.Name) })
	if err != nil {
		return "", err
	}
	defer unlock()
	if store.Exists(out) {
		return out, nil
	}
	log := b.store.Log("build-" + u.Name)
	step := b.say.Begin("building "+u.Name, "log: "+log)
	err = store.PublishDir(out, func(tmp string) error {
		if err := os.Chmod(tmp, 0o755); err != nil { //nolint:gosec // other users run the binaries too
			return fmt.Errorf("opening the folder of binaries: %w", err)
		}
		for _, c := range commands {
			target := tmp + "/"
			if c.Out != "" {
				target = filepath.Join(tmp, c.Out)
			}
			args := append([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags", c.LDFlags, "-o", target}, c.Packages...)
			if err := (run{dir: dir, log: log, env: goEnv()}).do(ctx, "go", args...); err != nil {
				return fmt.Errorf("building %s: %w", u.Name, err)
			}
		}
		return nil
	})
	return out, step.End(err)
}

// goVersion returns the version of the Go that builds in dir, which may differ from this program's.
func (b *Builder) goVersion(ctx context.Context, dir string) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if v, ok := b.versions[dir]; ok {
		return v, nil
	}
	cmd := exec.CommandContext(ctx, "go", "env", "GOVERSION")
	cmd.Dir = dir
	cmd.Env = goEnv()
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("asking go for its version in %s (is Go 1.26 or later in PATH?): %w", dir, err)
	}
	b.versions[dir] = strings.TrimSpace(string(out))
	return b.versions[dir], nil
}

// ModuleDir returns the source folder of a module that a part requires.
func (b *Builder) ModuleDir(ctx context.Context, part, module string) (string, error) {
	log := b.store.Log("module-" + part)
	dir := b.PartDir(part)
	if found, err := listModule(ctx, dir, module); err == nil && found != "" && store.Exists(found) {
		return found, nil
	}
	if err := (run{dir: dir, log: log, env: goEnv()}).do(ctx, "go", "mod", "download", module); err != nil {
		return "", fmt.Errorf("getting module %s (is the Go module proxy reachable?): %w", module, err)
	}
	return listModule(ctx, dir, module)
}

// listModule returns the source folder of a module; "" if it is not downloaded.
func listModule(ctx context.Context, dir, module string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module) //nolint:gosec // fixed arguments
	cmd.Dir = dir
	cmd.Env = goEnv()
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("finding module %s in %s: %w", module, dir, err)
	}
	return strings.TrimSpace(string(out)), nil
}
