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

// impatience is how long a daemon has to end that is restarted. An API server alone would take its time until the
// last watch has ended.
const impatience = 2 * time.Second

// runRestart ends one of the node's programs and starts it again.
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
	say.Say("%s was away for %s at most", rest[0], time.Since(began).Round(10*time.Millisecond))
	return nil
}

// runCompact lets etcd forget.
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

// signals that may be sent to pods, by the name that kill(1) knows.
var signals = map[string]syscall.Signal{"KILL": syscall.SIGKILL, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT}

// runSignal does to a pod what the API server cannot: a pod that it deletes is asked to end first, however short
// its grace.
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
