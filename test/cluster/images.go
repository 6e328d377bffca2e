// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/build"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/host"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/node"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/platform"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/report"
)

func runImage(ctx context.Context, say *report.Reporter, args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	dir := flags.String("C", ".", "the directory of the Go module to build in, or \"part:NAME\" for a pinned module, such as part:eventing")
	layer := flags.String("layer", "", "instead of Go programs, add a tar file to the base image")
	maven := flags.String("maven", "", "instead of Go programs, build the Maven module in this directory; its jars are in /app, and a Java runtime is in /jre")
	var needs, reads list
	flags.Var(&needs, "needs", "the directory of a Maven module that the one of --maven depends on; may be repeated")
	flags.Var(&reads, "reads", "the directory of a Maven module whose sources that build reads; may be repeated")
	name := flags.String("name", "", "the name of the image, for --layer and --maven")
	entrypoint := flags.String("entrypoint", "", "the command, with its words separated by spaces, for --layer and --maven")
	user := flags.String("user", "65532:65532", "the user that the image runs as, for --layer and --maven")
	paths, err := parse(flags, args, -1)
	if err != nil {
		return err
	}
	builder, err := newBuilder(say)
	if err != nil {
		return err
	}
	if *layer != "" || *maven != "" {
		if *name == "" || *entrypoint == "" || len(paths) > 0 || *layer != "" && *maven != "" {
			return errors.New("--layer or --maven wants --name and --entrypoint, and no import path")
		}
		if absent := host.Missing(host.JavaPackages); *maven != "" && len(absent) > 0 {
			return fmt.Errorf("a Maven module needs \"cluster deps --install --java\": %w", node.NeedPackages(absent))
		}
		n, err := node.New(say, builder)
		if err != nil {
			return err
		}
		program := node.Program{Name: *name, Entrypoint: strings.Fields(*entrypoint), User: *user}
		var ref string
		if *maven != "" {
			var module build.MavenModule
			if module, err = mavenModule(*maven, needs, reads); err == nil {
				ref, err = n.PushMaven(ctx, program, module)
			}
		} else {
			ref, err = n.PushTar(ctx, program, *layer)
		}
		if err != nil {
			return err
		}
		fmt.Println(ref)
		return nil
	}
	if len(paths) == 0 {
		return errors.New("name at least one import path, for example ./cmd/controller")
	}
	refs, err := builder.Images(ctx, platform.Target(), moduleDir(builder, *dir), "apps", paths...)
	if err != nil {
		return err
	}
	for _, ref := range refs {
		fmt.Println(ref)
	}
	return nil
}

// mavenModule returns a module with absolute paths.
func mavenModule(dir string, needs, reads []string) (build.MavenModule, error) {
	var err error
	absolute := func(dir string) string {
		path, aerr := filepath.Abs(dir)
		err = errors.Join(err, aerr)
		return path
	}
	m := build.MavenModule{Dir: absolute(dir)}
	for _, need := range needs {
		m.Needs = append(m.Needs, absolute(need))
	}
	for _, read := range reads {
		m.Reads = append(m.Reads, absolute(read))
	}
	return m, err
}

// moduleDir returns a folder as given, or that of a pinned part.
func moduleDir(b *build.Builder, dir string) string {
	if part, ok := strings.CutPrefix(dir, "part:"); ok {
		return b.PartDir(part)
	}
	return dir
}

func runApply(ctx context.Context, say *report.Reporter, args []string) error {
	flags := flag.NewFlagSet("apply", flag.ContinueOnError)
	dir := flags.String("C", ".", "the directory of the Go module in which ko:// references are built")
	var sources list
	flags.Var(&sources, "f", "a file or directory with manifests; may be repeated")
	if _, err := parse(flags, args, 0); err != nil {
		return err
	}
	if len(sources) == 0 {
		return errors.New("name the manifests with -f")
	}
	if _, err := os.Stat(node.Kubeconfig()); err != nil {
		return fmt.Errorf("there is no cluster; start one with \"cluster up\": %w", err)
	}
	builder, err := newBuilder(say)
	if err != nil {
		return err
	}
	manifests, err := platform.Read(sources...)
	if err != nil {
		return err
	}
	resolved, err := builder.Resolve(ctx, platform.Target(), *dir, "apps", manifests)
	if err != nil {
		return err
	}
	bin, err := builder.Dir(ctx, build.ControlPlane)
	if err != nil {
		return err
	}
	return platform.Apply(ctx, bin+"/kubectl", resolved, os.Stdout)
}

// list is a flag that can be repeated.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

// Set adds a value.
func (l *list) Set(v string) error {
	*l = append(*l, v)
	return nil
}
