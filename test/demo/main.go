// Command demo shows what this project does: a Knative Service goes from its first Revision over a canary, a
// promotion and a rollback to its removal, with requests flowing all the while, and every CDEvent is printed
// beside what a client measured of the traffic. Then a bad release of a sharded application is stopped by its gate.
//
// Invariant: everything shown is real and seen from outside. Events are read from the log of Knative's own
// event_display, the traffic is counted from the answers. A demo that stops half-way says where, and can be
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
		out:      out,
		existing: os.Getenv("DEMO_CLUSTER") == "existing",
		program:  os.Getenv("CLUSTER_PROGRAM"),
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
