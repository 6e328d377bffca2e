// SPDX-License-Identifier: Apache-2.0

// Command release writes a release: images, manifests, the chart, the plugin and what vouches for them. The same commit
// and Go give the same bytes, signatures apart. It needs no network but the Go module proxy, and the registry that it
// pushes to, if any.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// module is the import path of this repository.
const module = "github.com/knative-cdevents/knative-cdevents"

// epoch is the time of all files in archives and images: a release does not depend on when it was made.
var epoch = time.Unix(0, 0).UTC()

// release is what the parts of a release have in common.
type release struct {
	// root is the repository, and out the folder that is written.
	root, out string
	// version is that of the tag, such as v0.1.0.
	version string
	// repository is where images are found, and push says whether to put them there.
	repository string
	push       bool
	// platforms are those of the images, and systems those of the plugin.
	platforms, systems []string
	// sboms are those that ko has made, by image and platform.
	sboms []file
	// url is where the files of this release are downloaded.
	url string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	r := &release{}
	var platforms, systems string
	flags.StringVar(&r.root, "C", ".", "the repository")
	flags.StringVar(&r.out, "out", "release", "the folder to write, which is emptied first")
	flags.StringVar(&r.version, "version", "", "the version, such as v0.1.0")
	flags.StringVar(&r.repository, "repository", "", "where the manifests find images, if KO_DOCKER_REPO is not set")
	flags.StringVar(&r.url, "url", "", "where the files of this version are downloaded")
	flags.StringVar(&platforms, "platforms", "linux/amd64,linux/arm64", "the platforms of the images")
	flags.StringVar(&systems, "systems", "", "the systems of the plugin; none if empty")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("reading the command line: %w", err)
	}
	var err error
	if r.root, err = filepath.Abs(r.root); err != nil {
		return fmt.Errorf("finding the repository: %w", err)
	}
	if r.out, err = filepath.Abs(r.out); err != nil {
		return fmt.Errorf("finding the folder to write: %w", err)
	}
	switch flags.Arg(0) {
	case "notice":
		return r.writeNotice(ctx)
	case "registry":
		return serveRegistry(ctx)
	}
	// A version without a v is no module tag, and the plugin's index refuses it.
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`).MatchString(r.version) {
		return fmt.Errorf("VERSION is %q; it must be like v0.1.0", r.version)
	}
	if err := r.modules(); err != nil {
		return err
	}
	r.platforms = strings.Split(platforms, ",")
	r.systems = strings.FieldsFunc(systems, func(c rune) bool { return c == ',' || c == ' ' })
	if to := os.Getenv("KO_DOCKER_REPO"); to != "" {
		r.repository, r.push = to, true
	}
	return r.write(ctx)
}

var ownRequirement = regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(module) + `/(\S+) (v\S+)`)

// modules fails if a module of this repository requires another one in a version that will not be tagged: a replace
// is for builds here, and those who use the module get what it requires.
func (r *release) modules() error {
	for _, path := range []string{"go.mod", "clients/sidecar/go.mod", "clients/protoactor/go.mod"} {
		raw, err := os.ReadFile(filepath.Join(r.root, path)) //nolint:gosec // a file of the repository
		if err != nil {
			return fmt.Errorf("reading what modules require: %w", err)
		}
		for _, found := range ownRequirement.FindAllStringSubmatch(string(raw), -1) {
			if release, _, _ := strings.Cut(r.version, "-"); found[2] != release {
				return fmt.Errorf("%s requires %s %s; it must be %s", path, found[1], found[2], release)
			}
		}
	}
	return nil
}

// write makes all parts. Checksums come last, as they cover the others, and signatures after them.
func (r *release) write(ctx context.Context) error {
	// First, as the rest takes long: a wrong key or password is an error at once.
	public, err := r.publicKey(ctx)
	if err != nil {
		return err
	}
	if err := r.empty(); err != nil {
		return err
	}
	licenses, err := r.licenses(ctx)
	if err != nil {
		return err
	}
	if err := r.file("licenses.txt", licenses); err != nil {
		return err
	}
	built, err := r.images(ctx, licenses)
	if err != nil {
		return err
	}
	if err := r.manifests(built); err != nil {
		return err
	}
	chart, err := r.chart(ctx, built)
	if err != nil {
		return err
	}
	if err := r.plugins(ctx, licenses); err != nil {
		return err
	}
	if err := r.provenance(ctx, built); err != nil {
		return err
	}
	if err := r.checksums(); err != nil {
		return err
	}
	return r.sign(ctx, public, built, chart)
}

// marker says that a folder was written by this program, and may be emptied.
const marker = "checksums.txt"

// empty removes what an earlier run has written. It leaves alone a folder that holds something else.
func (r *release) empty() error {
	held, err := os.ReadDir(r.out)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("reading the folder to write: %w", err)
	}
	if _, err := os.Stat(filepath.Join(r.out, marker)); len(held) > 0 && err != nil {
		return fmt.Errorf("%s holds something, and no %s of a release; remove it, or choose another folder", r.out, marker)
	}
	if err := os.RemoveAll(r.out); err != nil {
		return fmt.Errorf("emptying the folder to write: %w", err)
	}
	// It is there from the beginning, so that a run that was interrupted can be repeated.
	return r.file(marker, nil)
}

// file writes a file of the release.
func (r *release) file(name string, content []byte) error {
	path := filepath.Join(r.out, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // everybody may read a release
		return fmt.Errorf("writing %s: %w", name, err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil { //nolint:gosec // everybody may read a release
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// command runs a program in the repository, and returns what it prints.
func (r *release) command(ctx context.Context, env []string, stdin, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...) //nolint:gosec // the programs of a release
	// Go's stamp of the commit depends on which tags a clone has, and whether it is one. The provenance names the commit.
	env = append(append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -buildvcs=false")), env...)
	c.Dir, c.Env, c.Stdin, c.Stderr = r.root, env, strings.NewReader(stdin), os.Stderr
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", filepath.Base(name), cmp.Or(strings.Join(args[:min(len(args), 2)], " "), ""), err)
	}
	return string(out), nil
}

// tool runs a pinned tool.
func (r *release) tool(ctx context.Context, env []string, stdin, name string, args ...string) (string, error) {
	return r.command(ctx, env, stdin, filepath.Join(r.root, ".ci", "tool"), append([]string{name}, args...)...)
}
