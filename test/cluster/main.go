// SPDX-License-Identifier: Apache-2.0

// Command cluster runs a real Kubernetes with Knative and Tekton on one machine, from pinned Go modules
// and Debian packages, for the tests, the demo and the benchmarks of knative-cdevents.
//
// Invariant: results go to standard output and everything else to standard error. A command that fails
// says what to do about it and exits with 1; wrong usage exits with 2.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/report"
)

// errUsage is wrong usage; its message has been printed already.
var errUsage = errors.New("wrong usage")

// exitError is the failure of a program that ran for the user and has printed its own error.
type exitError struct{ code int }

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

type command struct {
	name  string
	args  string
	about string
	run   func(ctx context.Context, say *report.Reporter, args []string) error
}

func commands() []command {
	return []command{
		{"up", "[--with PART,…] [--control-plane-only]", "start the cluster, or those parts of it that do not run", runUp},
		{"down", "[--keep-data] [--control-plane-only]", "delete the cluster, and check that nothing is left", runDown},
		{"remove", "PART", "remove a part that \"all\" leaves out, with all objects of its kinds", runRemove},
		{"status", "[-o json]", "show what runs, its health, addresses and logs", runStatus},
		{"kubeconfig", "[--control-plane-only]", "print the path of the administrator's kubeconfig", runKubeconfig},
		{"kubectl", "ARGUMENT…", "run the cluster's kubectl as administrator", runKubectl},
		{"logs", "PART", "print the log of a daemon or of a build", runLogs},
		{"image", "[-C DIR] IMPORTPATH…", "build Go programs with ko, push them to the cluster's registry, and print the references", runImage},
		{"apply", "-f DIR [-C DIR]", "resolve ko:// images in manifests and apply them", runApply},
		{"assets", "", "print a folder with etcd, kube-apiserver and kubectl, for KUBEBUILDER_ASSETS", runAssets},
		{"restart", "DAEMON", "restart one of the node's programs", runRestart},
		{"compact", "", "compact etcd, so that it keeps only the current state of objects", runCompact},
		{"signal", "KILL|STOP|CONT POD-UID[/CONTAINER-ID]", "send a signal to all processes of a pod, or of one container", runSignal},
		{"network", "cut POD-IP [OTHER-IP…] | mend", "cut a pod off from all pods but those others, or connect it again", runNetwork},
		{"deps", "[--install] [--java] [--browser]", "print, or install, the Debian packages that are missing", runDeps},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := dispatch(ctx, report.New(os.Stderr), os.Args[1:])
	stop()
	var exit exitError
	switch {
	case err == nil:
	case errors.As(err, &exit):
		os.Exit(exit.code)
	case errors.Is(err, errUsage):
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func dispatch(ctx context.Context, say *report.Reporter, args []string) error {
	if len(args) > 0 {
		for _, c := range commands() {
			if c.name == args[0] {
				return c.run(ctx, say, args[1:])
			}
		}
		if h := args[0]; h != "help" && h != "-h" && h != "--help" {
			fmt.Fprintf(os.Stderr, "cluster: command %q does not exist\n\n", h)
			usage()
			return errUsage
		}
		usage()
		return nil
	}
	usage()
	return errUsage
}

func usage() {
	var b strings.Builder
	b.WriteString("Runs a one-node Kubernetes cluster with Knative Serving, Tekton, Prometheus, Knative Eventing, Cluster API and Crossplane.\n\nUsage: cluster COMMAND\n\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "  %-10s %-42s %s\n", c.name, c.args, c.about)
	}
	b.WriteString("\nThe environment variables KUBERNETES and SERVING choose older versions than the newest for \"up\" and \"assets\", such as 1.34.\n")
	fmt.Fprint(os.Stderr, b.String())
}

// parse parses flags and returns the remaining arguments; n bounds their number, unless it is negative.
func parse(flags *flag.FlagSet, args []string, n int) ([]string, error) {
	if err := flags.Parse(args); err != nil {
		return nil, errUsage // the flag package has printed the error
	}
	if rest := flags.Args(); n >= 0 && len(rest) > n {
		return nil, fmt.Errorf("%s takes at most %d arguments, got %q", flags.Name(), n, rest)
	}
	return flags.Args(), nil
}
