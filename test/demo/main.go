// SPDX-License-Identifier: Apache-2.0

// Command demo shows what this project does. A Knative Service goes from its first Revision through a canary, a
// promotion and a rollback to its removal, with requests all the time; the demo prints every CDEvent beside the
// traffic that a client measured. Then a gate stops a bad release of a sharded application. On request, a cluster that
// Cluster API provisions follows.
//
// Invariant: everything shown is real and observed from outside. Events come from the log of Knative's own
// event_display, and the traffic is counted from the responses. A demo that fails says where, and can be
// run again.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	down := flag.Bool("down", false, "remove the demo")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	out := newScreen(os.Stdout, colourful(os.Stdout))
	d := &demo{
		out:          out,
		existing:     os.Getenv("DEMO_CLUSTER") == "existing",
		program:      os.Getenv("CLUSTER_PROGRAM"),
		environments: os.Getenv("DEMO_ENVIRONMENT") == "true",
		sidecar:      os.Getenv("DEMO_STATEFUL") == "sidecar",
	}
	if kind := os.Getenv("DEMO_STATEFUL"); kind != "" && kind != "sidecar" && kind != "protoactor" {
		out.failed(fmt.Errorf("DEMO_STATEFUL is %q; it must be protoactor (the default) or sidecar", kind))
		os.Exit(1)
	}
	run := d.run
	if *down {
		run = d.down
	}
	err := run(ctx)
	stop()
	if err == nil {
		return
	}
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	out.failed(err)
	if !*down {
		fmt.Fprintln(os.Stderr, "\nRun \"make demo\" again; everything that was built is kept. \"make demo-down\" removes everything.")
	}
	os.Exit(1)
}
