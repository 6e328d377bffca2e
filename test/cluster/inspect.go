// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/build"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/host"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/node"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/platform"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/report"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/store"
)

func runStatus(ctx context.Context, say *report.Reporter, args []string) error {
	flags := flag.NewFlagSet("status", flag.ContinueOnError)
	format := flags.String("o", "", "the output format: \"json\", for scripts")
	if _, err := parse(flags, args, 0); err != nil {
		return err
	}
	if !store.Exists(node.Kubeconfig()) {
		return errors.New("there is no cluster; start one with \"cluster up\"")
	}
	n, err := sharedNode(say)
	if err != nil {
		return err
	}
	s := platform.New(n, say).Status(ctx)
	if *format == "json" {
		enc := json.NewEncoder(os.Stdout)
		enc.SetIndent("", "  ")
		if err := enc.Encode(s); err != nil {
			return fmt.Errorf("printing the status: %w", err)
		}
	} else if err := printStatus(os.Stdout, s); err != nil {
		return err
	}
	if !s.Healthy {
		return errors.New("not everything is healthy; \"cluster up\" starts what is dead")
	}
	return nil
}

func printStatus(out io.Writer, s platform.Status) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	line := func(cells ...string) { _, _ = fmt.Fprintln(w, strings.Join(cells, "\t")) } // Flush reports errors
	line("PART", "PID", "HEALTH", "VERSION", "LOG")
	for _, d := range s.Daemons {
		pid := "-"
		if d.PID > 0 {
			pid = fmt.Sprint(d.PID)
		}
		line(d.Name, pid, d.Health, d.Version, d.Log)
	}
	for _, d := range s.Deployments {
		line(d.Namespace+"/"+d.Name, "", d.Health, d.Version, "")
	}
	line()
	for _, a := range s.Addresses {
		line(a.Name, a.Address)
	}
	return w.Flush()
}

func runLogs(_ context.Context, _ *report.Reporter, args []string) error {
	flags := flag.NewFlagSet("logs", flag.ContinueOnError)
	rest, err := parse(flags, args, 1)
	if err != nil {
		return err
	}
	st, err := store.Open()
	if err != nil {
		return err
	}
	dirs := []string{filepath.Join(node.Dir, "log"), filepath.Join(st.Root(), "log")}
	if len(rest) == 1 {
		for _, d := range dirs {
			f, err := os.Open(filepath.Join(d, filepath.Base(rest[0])+".log")) //nolint:gosec // inside the log folder
			if err != nil {
				continue
			}
			_, err = io.Copy(os.Stdout, f)
			return errors.Join(err, f.Close())
		}
	}
	var have []string
	for _, d := range dirs {
		paths, err := filepath.Glob(filepath.Join(d, "*.log"))
		if err != nil {
			return err
		}
		for _, p := range paths {
			have = append(have, strings.TrimSuffix(filepath.Base(p), ".log"))
		}
	}
	return fmt.Errorf("name one of the logs: %s (a pod's: cluster kubectl logs)", strings.Join(have, ", "))
}

func runKubectl(ctx context.Context, say *report.Reporter, args []string) error {
	builder, err := newBuilder(say)
	if err != nil {
		return err
	}
	dir, err := builder.Dir(ctx, build.ControlPlane)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "kubectl"), args...) //nolint:gosec // the user's command
	cmd.Env = append(os.Environ(), "KUBECONFIG="+node.Kubeconfig())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exitError{code: exit.ExitCode()}
	}
	return err
}

func runAssets(ctx context.Context, say *report.Reporter, args []string) error {
	if _, err := parse(flag.NewFlagSet("assets", flag.ContinueOnError), args, 0); err != nil {
		return err
	}
	builder, err := askedBuilder(say)
	if err != nil {
		return err
	}
	dir, err := builder.Dir(ctx, build.ControlPlane)
	if err != nil {
		return err
	}
	fmt.Println(dir)
	return nil
}

func runDeps(ctx context.Context, say *report.Reporter, args []string) error {
	flags := flag.NewFlagSet("deps", flag.ContinueOnError)
	install := flags.Bool("install", false, "install the packages with apt-get")
	java := flags.Bool("java", false, "include the packages that are needed to build images with Maven")
	browser := flags.Bool("browser", false, "include the packages that are needed to test pages in a browser")
	if _, err := parse(flags, args, 0); err != nil {
		return err
	}
	var all []host.Package
	for _, set := range [][]host.Package{host.NodePackages, host.PrometheusPackages, host.TektonPackages} {
		all = append(all, set...)
	}
	if *java {
		all = append(all, host.JavaPackages...)
	}
	if *browser {
		all = append(all, host.BrowserPackages...)
	}
	absent := host.Missing(all)
	if len(absent) == 0 {
		say.Say("all Debian packages are there")
		return nil
	}
	if !*install {
		return node.NeedPackages(absent)
	}
	step := say.Begin("installing Debian packages", strings.Join(host.AptArgs(absent)[3:], " "))
	for _, apt := range [][]string{{"update"}, host.AptArgs(absent)} {
		if _, err := host.Run(ctx, "", "apt-get", apt...); err != nil {
			return step.End(fmt.Errorf("installing Debian packages (as root?): %w", err))
		}
	}
	return step.End(quiet(ctx, absent))
}

// quiet stops the service that Debian starts with a newly installed package, because it would occupy our own
// program's port.
func quiet(ctx context.Context, installed []host.Package) error {
	ours := func(p host.Package) bool { return p.Name == "prometheus" }
	if !store.Exists("/run/systemd/system") || !slices.ContainsFunc(installed, ours) {
		return nil
	}
	_, err := host.Run(ctx, "", "systemctl", "disable", "--now", "prometheus")
	return err
}
