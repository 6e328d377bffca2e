// SPDX-License-Identifier: Apache-2.0

// Command kubectl-cdevents shows rollouts, gates and events of Knative Services. As kubectl-cdevents or
// kn-cdevents on the PATH, it is the plugin "cdevents" of kubectl or kn.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
	"github.com/knative-cdevents/knative-cdevents/cli/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := command.New(command.Options{
		IOStreams: command.Streams(), Program: os.Args[0], Getenv: os.Getenv, Now: time.Now,
	}, os.Args[1:]).ExecuteContext(ctx)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			err = errors.New("interrupted")
		}
		fmt.Fprintln(os.Stderr, "error: "+sanitize.VisibleLines(sanitize.WithoutCredentials(err.Error())))
		stop()
		os.Exit(command.Code(err))
	}
}
