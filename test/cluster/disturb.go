// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/node"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/report"
)

// impatience is the grace period of a daemon that is restarted. By default, an API server waits for its last watch to
// end.
const impatience = 2 * time.Second

// runRestart restarts one of the node's programs.
func runRestart(ctx context.Context, say *report.Reporter, args []string) error {
	flags := flag.NewFlagSet("restart", flag.ContinueOnError)
	rest, err := parse(flags, args, 1)
	if err != nil {
		return err
	}
	if len(rest) != 1 || !slices.Contains(node.DaemonNames(), rest[0]) {
		return fmt.Errorf("name one of the daemons: %s", strings.Join(node.DaemonNames(), ", "))
	}
	n, unlock, err := openNode(say)
	if err != nil {
		return err
	}
	defer unlock()
	began := time.Now()
	if err := n.Daemons().Stop(impatience, rest[0]); err != nil {
		return err
	}
	if err := n.Up(ctx); err != nil {
		return err
	}
	say.Say("%s was down for %s at most", rest[0], time.Since(began).Round(10*time.Millisecond))
	return nil
}

// runCompact compacts etcd.
func runCompact(ctx context.Context, say *report.Reporter, args []string) error {
	flags := flag.NewFlagSet("compact", flag.ContinueOnError)
	if _, err := parse(flags, args, 0); err != nil {
		return err
	}
	n, unlock, err := openNode(say)
	if err != nil {
		return err
	}
	defer unlock()
	revision, err := n.Compact(ctx)
	if err != nil {
		return err
	}
	fmt.Println(revision)
	return nil
}

// signals that can be sent to pods, by their names in kill(1).
var signals = map[string]syscall.Signal{"KILL": syscall.SIGKILL, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT}

// runSignal does what the API server cannot: it always asks a deleted pod to end first, however short its grace
// period.
func runSignal(_ context.Context, say *report.Reporter, args []string) error {
	flags := flag.NewFlagSet("signal", flag.ContinueOnError)
	rest, err := parse(flags, args, 2)
	if err != nil {
		return err
	}
	if len(rest) != 2 || signals[rest[0]] == 0 {
		return errors.New("name a signal (KILL, STOP or CONT) and the UID of a pod")
	}
	n, err := sharedNode(say)
	if err != nil {
		return err
	}
	return n.Signal(signals[rest[0]], rest[1])
}

// runNetwork cuts a pod off from the network, or connects it again.
func runNetwork(ctx context.Context, say *report.Reporter, args []string) error {
	flags := flag.NewFlagSet("network", flag.ContinueOnError)
	rest, err := parse(flags, args, -1)
	if err != nil {
		return err
	}
	cut, mend := len(rest) > 1 && rest[0] == "cut", len(rest) == 1 && rest[0] == "mend"
	if !cut && !mend {
		return errors.New("say \"cut\" and the IP address of a pod, with those of pods that it still reaches, or \"mend\"")
	}
	n, err := sharedNode(say)
	if err != nil {
		return err
	}
	if mend {
		return n.Mend(ctx)
	}
	return n.Cut(ctx, rest[1], rest[2:]...)
}
