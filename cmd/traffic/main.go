// SPDX-License-Identifier: Apache-2.0

// Command traffic gives one Revision of a Knative Service a share of the traffic, and
// another Revision the rest. Task knative-traffic runs it.
//
// Invariant: it writes spec.traffic of that Service and nothing else, only if the
// current traffic is what its caller expects, and only if no one else has written the Service
// since it was read. It succeeds only when the split is in effect on the Route.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/rest"
	servingv1 "knative.dev/serving/pkg/client/clientset/versioned/typed/serving/v1"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Getenv); err != nil {
		fmt.Fprintln(os.Stderr, shown(err.Error()))
		stop()
		os.Exit(1)
	}
}

// run executes the request in the environment, and writes the outcome to the Task's
// results, because a pod's logs are lost with the pod.
func run(ctx context.Context, getenv func(string) string) error {
	results := results{getenv}
	err := func() error {
		asked, err := read(getenv)
		if err != nil {
			return err
		}
		config, err := rest.InClusterConfig()
		if err != nil {
			return fmt.Errorf("looking for the API server: %w", err)
		}
		if asked.gate != "" {
			gate, err := asked.reader(config)
			if err != nil {
				return err
			}
			if err := usual.measurable(ctx, gate); err != nil {
				return err
			}
		}
		client, err := servingv1.NewForConfig(config)
		if err != nil {
			return fmt.Errorf("making a client for Knative Serving: %w", err)
		}
		return shift(ctx, client, asked, results)
	}()
	if err == nil {
		return nil
	}
	if werr := results.write(message, err.Error()); werr != nil {
		return fmt.Errorf("%w; and %w", err, werr)
	}
	return err
}
