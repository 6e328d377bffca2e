// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/build"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/node"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/platform"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/report"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/store"
)

// asked returns the versions that the user wants, by part; "" is no wish. "make" passes its variables on like this.
func asked() map[string]string {
	return map[string]string{"kubernetes": os.Getenv("KUBERNETES"), "serving": os.Getenv("SERVING")}
}

// newBuilder returns a builder of the versions that the cluster on this machine runs. If there is none, nothing is
// chosen yet.
func newBuilder(say *report.Reporter) (*build.Builder, error) {
	st, err := store.Open()
	if err != nil {
		return nil, err
	}
	versions, err := node.Versions()
	if err != nil {
		return nil, err
	}
	return build.New(st, say, versions)
}

// askedBuilder returns a builder of what the user asks for, whatever the cluster on this machine runs.
func askedBuilder(say *report.Reporter) (*build.Builder, error) {
	st, err := store.Open()
	if err != nil {
		return nil, err
	}
	b, err := build.New(st, say, nil)
	if err != nil {
		return nil, err
	}
	return b, b.Choose(asked())
}

// sharedNode returns the node without a lock: other commands may change it.
func sharedNode(say *report.Reporter) (*node.Node, error) {
	if err := node.Supported(); err != nil {
		return nil, err
	}
	builder, err := newBuilder(say)
	if err != nil {
		return nil, err
	}
	return node.New(say, builder)
}

// openNode returns the node with a lock: no other command changes it until unlock is called.
func openNode(say *report.Reporter) (n *node.Node, unlock func(), err error) {
	if err := node.Supported(); err != nil {
		return nil, nil, err
	}
	builder, err := newBuilder(say)
	if err != nil {
		return nil, nil, err
	}
	unlock, err = store.Lock(node.LockFile(), func() { say.Say("waiting for another cluster command to end") })
	if err != nil {
		return nil, nil, err
	}
	n, err = node.New(say, builder)
	if err != nil {
		unlock()
		return nil, nil, err
	}
	return n, unlock, nil
}

func runUp(ctx context.Context, say *report.Reporter, args []string) error {
	flags := flag.NewFlagSet("up", flag.ContinueOnError)
	with := flags.String("with", "", "comma-separated parts: "+platform.Names())
	only := flags.Bool("control-plane-only", false, "start only etcd and an API server; does not need root")
	if _, err := parse(flags, args, 0); err != nil {
		return err
	}
	parts, err := platform.Parse(*with)
	if err != nil {
		return err
	}
	began := time.Now()
	if *only {
		if len(parts) > 0 {
			return errors.New("--with needs a node to run pods on: leave --control-plane-only out")
		}
		return controlPlaneUp(ctx, say)
	}
	n, unlock, err := openNode(say)
	if err != nil {
		return err
	}
	defer unlock()
	if err := n.Builder().Choose(asked()); err != nil {
		return err
	}
	p := platform.New(n, say)
	if err := p.Preflight(parts); err != nil {
		return err
	}
	p.Begin(ctx, parts)
	if err := n.Up(ctx); err != nil {
		return err
	}
	if err := p.Install(ctx, parts); err != nil {
		return err
	}
	say.Say("the cluster is up after %s", time.Since(began).Round(100*time.Millisecond))
	say.Say("  %-12s %s", "kubernetes", n.Builder().Version("kubernetes"))
	if slices.Contains(parts, platform.Serving) {
		say.Say("  %-12s %s", "serving", n.Builder().Version("serving"))
	}
	for _, a := range p.Addresses() {
		say.Say("  %-12s %s", a.Name, a.Address)
	}
	fmt.Println(node.Kubeconfig())
	return nil
}

func runDown(ctx context.Context, say *report.Reporter, args []string) error {
	flags := flag.NewFlagSet("down", flag.ContinueOnError)
	keep := flags.Bool("keep-data", false, "keep the cluster's objects for the next \"up\" (images and builds are always kept)")
	only := flags.Bool("control-plane-only", false, "use the cluster that was started with this flag")
	if _, err := parse(flags, args, 0); err != nil {
		return err
	}
	if *only {
		return controlPlaneDown(say, *keep)
	}
	n, unlock, err := openNode(say)
	if err != nil {
		return err
	}
	defer unlock()
	before, err := n.Look(ctx)
	if err != nil {
		return err
	}
	downErr := n.Down(ctx, *keep)
	after, err := n.Look(ctx)
	if err != nil {
		return errors.Join(downErr, err)
	}
	say.Say("before: %s", before.Counts())
	say.Say("after:  %s", after.Counts())
	if !after.Empty() {
		return errors.Join(downErr, fmt.Errorf("something of the cluster is left: %+v", after))
	}
	return downErr
}

func runRemove(ctx context.Context, say *report.Reporter, args []string) error {
	flags := flag.NewFlagSet("remove", flag.ContinueOnError)
	rest, err := parse(flags, args, 1)
	if err != nil {
		return err
	}
	part, err := platform.Removable(strings.Join(rest, ""))
	if err != nil {
		return err
	}
	n, unlock, err := openNode(say)
	if err != nil {
		return err
	}
	defer unlock()
	if err := n.Up(ctx); err != nil {
		return err
	}
	return platform.New(n, say).Remove(ctx, part)
}

func runKubeconfig(_ context.Context, _ *report.Reporter, args []string) error {
	flags := flag.NewFlagSet("kubeconfig", flag.ContinueOnError)
	only := flags.Bool("control-plane-only", false, "use the cluster that was started with this flag")
	if _, err := parse(flags, args, 0); err != nil {
		return err
	}
	path := node.Kubeconfig()
	if *only {
		alone, err := node.NewAlone(report.New(os.Stderr))
		if err != nil {
			return err
		}
		path = alone.Kubeconfig()
	}
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("there is no cluster; start one with \"cluster up\": %w", err)
	}
	fmt.Println(path)
	return nil
}
