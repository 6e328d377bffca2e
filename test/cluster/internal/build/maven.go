// SPDX-License-Identifier: Apache-2.0

package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/registry"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/store"
)

// javaModules are the Java modules of the applications: an actor system with HTTP, and the last two for agents that
// attach to their own process.
const javaModules = "java.base,java.logging,java.net.http,java.naming,java.management,java.sql,java.xml," +
	"jdk.httpserver,jdk.unsupported,jdk.crypto.ec,jdk.jfr,java.instrument,jdk.attach"

// MavenModule is a Maven module, and what its build needs of the checkout.
type MavenModule struct {
	Dir string
	// Needs are the folders of the modules that it depends on.
	Needs []string
	// Reads are the folders of modules whose sources it, or one of Needs, makes its own from. They are not built.
	Reads []string
}

// others are the folders beside the module's own.
func (m MavenModule) others() []string { return slices.Concat(m.Needs, m.Reads) }

// MavenKey identifies the image of a Maven module: its sources and those of the modules that it depends on or reads,
// the versions that they pin, and the Java that compiles them and goes into the image.
func (b *Builder) MavenKey(ctx context.Context, m MavenModule) (string, error) {
	var version bytes.Buffer
	if err := (run{dir: m.Dir, log: b.store.Log("maven"), env: os.Environ(), out: &version}).do(ctx, "jlink", "--version"); err != nil {
		return "", fmt.Errorf("asking for Java's version: %w", err)
	}
	inputs := []string{version.String(), javaModules}
	parts := []string{filepath.Join(m.Dir, "pom.xml"), filepath.Join(m.Dir, "src")}
	for _, other := range m.others() {
		parts = append(parts, filepath.Join(other, "pom.xml"), filepath.Join(other, sourcesOfOthers))
	}
	for _, part := range parts {
		if !store.Exists(part) {
			continue // its build makes its sources
		}
		err := filepath.WalkDir(part, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			data, err := os.ReadFile(path) //nolint:gosec // a path inside the checkout
			name, _ := filepath.Rel(m.Dir, path)
			inputs = append(inputs, name, string(data))
			return err
		})
		if err != nil {
			return "", fmt.Errorf("reading the Maven module: %w", err)
		}
	}
	return store.Key(inputs...), nil
}

// sourcesOfOthers leaves the tests of a module that another one needs or reads out: they have run where it was built.
const sourcesOfOthers = "src/main"

// Maven builds a module, and before it those that it depends on, and returns the files of its image: jars in /app, a
// minimal Java runtime for them in /jre, and the C libraries that Java needs. It builds a copy, because Maven writes
// into its source folder.
func (b *Builder) Maven(ctx context.Context, m MavenModule, key string) ([]registry.File, error) {
	name := "maven-" + filepath.Base(m.Dir)
	out := b.store.Bin(name, key)
	unlock, err := store.Lock(out+".lock", func() { b.say.Say("waiting for another command that builds %s", name) })
	if err != nil {
		return nil, err
	}
	defer unlock()
	if store.Exists(out) {
		return tree(out)
	}
	log := b.store.Log(name)
	step := b.say.Begin("building "+m.Dir+" with Maven", "log: "+log)
	err = store.PublishDir(out, func(tmp string) error {
		work, err := os.MkdirTemp("", "maven-*")
		if err != nil {
			return fmt.Errorf("making a folder to build in: %w", err)
		}
		defer func() { _ = os.RemoveAll(work) }() // a leftover temporary folder does no harm
		app, err := reactor(work, m)
		if err != nil {
			return fmt.Errorf("copying the Maven module: %w", err)
		}
		for _, c := range [][]string{
			{"mvn", "--batch-mode", "--quiet", "--no-transfer-progress", "package"},
			{"mkdir", filepath.Join(tmp, "app")},
			{"sh", "-c", `cp "$1"/target/*.jar "$1"/target/lib/*.jar "$0"`, filepath.Join(tmp, "app"), app},
			{
				"jlink", "--add-modules", javaModules, "--strip-java-debug-attributes", "--no-header-files", "--no-man-pages", "--compress=2",
				"--output", filepath.Join(tmp, "jre"),
			},
		} {
			if err := (run{dir: work, log: log, env: os.Environ()}).do(ctx, c[0], c[1:]...); err != nil {
				return err
			}
		}
		return b.libraries(ctx, log, tmp)
	})
	if err := step.End(err); err != nil {
		return nil, err
	}
	return tree(out)
}

// reactor copies the folders of a module, so that they lie to each other as in the checkout, and writes a POM that
// builds the module and those that it depends on together. It returns where the module is.
func reactor(work string, m MavenModule) (app string, err error) {
	at := func(dir string) string { return strings.TrimPrefix(dir, commonFolder(m)) }
	if err := copyModule(filepath.Join(work, at(m.Dir)), m.Dir, "src"); err != nil {
		return "", err
	}
	for _, other := range m.others() {
		if err := copyModule(filepath.Join(work, at(other)), other, sourcesOfOthers); err != nil {
			return "", err
		}
	}
	modules := ""
	for _, dir := range append([]string{m.Dir}, m.Needs...) {
		modules += "<module>" + at(dir) + "</module>"
	}
	pom := "<project><modelVersion>4.0.0</modelVersion><groupId>all</groupId><artifactId>all</artifactId><version>1</version>" +
		"<packaging>pom</packaging><modules>" + modules + "</modules></project>"
	return at(m.Dir), os.WriteFile(filepath.Join(work, "pom.xml"), []byte(pom), 0o600)
}

// commonFolder returns the folder that contains all folders of a module, with a separator at the end.
func commonFolder(m MavenModule) string {
	common := filepath.Dir(m.Dir) + string(filepath.Separator)
	for slices.ContainsFunc(m.others(), func(other string) bool { return !strings.HasPrefix(other, common) }) {
		common = strings.TrimSuffix(filepath.Dir(filepath.Clean(common)), string(filepath.Separator)) + string(filepath.Separator)
	}
	return common
}

// copyModule copies a module's POM, and its sources if it has any of its own.
func copyModule(to, from, sources string) error {
	if err := os.MkdirAll(to, 0o750); err != nil {
		return err //nolint:wrapcheck // Maven wraps it
	}
	if store.Exists(filepath.Join(from, sources)) {
		if err := os.CopyFS(filepath.Join(to, sources), os.DirFS(filepath.Join(from, sources))); err != nil {
			return err //nolint:wrapcheck // Maven wraps it
		}
	}
	pom, err := os.ReadFile(filepath.Join(from, "pom.xml")) //nolint:gosec // a path inside the checkout
	if err != nil {
		return err //nolint:wrapcheck // Maven wraps it
	}
	return os.WriteFile(filepath.Join(to, "pom.xml"), pom, 0o600) //nolint:wrapcheck,gosec // Maven wraps it; a path in its own folder
}

// shared matches paths in ldd's output: "libc.so.6 => /lib/libc.so.6 (0x…)", and the loader, which has no arrow.
var shared = regexp.MustCompile(`(?m)^\s*(?:\S+ => )?(/\S+) \(0x`)

// libraries copies the C libraries that Java needs to where it looks for them.
func (b *Builder) libraries(ctx context.Context, log, root string) error {
	native, err := filepath.Glob(filepath.Join(root, "jre", "lib", "*.so"))
	more, merr := filepath.Glob(filepath.Join(root, "jre", "lib", "server", "*.so"))
	if err := errors.Join(err, merr); err != nil {
		return fmt.Errorf("looking for Java's libraries: %w", err)
	}
	var output bytes.Buffer
	args := slices.Concat([]string{filepath.Join(root, "jre", "bin", "java")}, native, more)
	if err := (run{dir: root, log: log, env: os.Environ(), out: &output}).do(ctx, "ldd", args...); err != nil {
		return err
	}
	for _, found := range shared.FindAllStringSubmatch(output.String(), -1) {
		path := found[1]
		if strings.HasPrefix(path, root) {
			continue
		}
		data, err := os.ReadFile(path) //nolint:gosec // a library of the machine
		if err != nil {
			return fmt.Errorf("reading a library that Java needs: %w", err)
		}
		to := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil { //nolint:gosec // images are read by others
			return fmt.Errorf("making a folder of the image: %w", err)
		}
		if err := os.WriteFile(to, data, 0o755); err != nil { //nolint:gosec // images are read by others
			return fmt.Errorf("copying a library that Java needs: %w", err)
		}
	}
	return nil
}

// tree returns a folder as the content of a layer, readable for any user.
func tree(root string) ([]registry.File, error) {
	var files []registry.File
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		file := registry.File{Name: name, Mode: info.Mode().Perm() | 0o444, From: path}
		switch {
		case entry.IsDir():
			file = registry.File{Name: name, Mode: 0o755, Dir: true}
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			file = registry.File{Name: name, Mode: 0o777, Link: to}
		}
		files = append(files, file)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading what was built: %w", err)
	}
	return files, nil
}
