// The controller watches Knative Services and sends CDEvents about them.
//
// This package only wires: it holds no decision. Everything that it starts ends
// with the context that is given to sharedmain; only sending ends before, at once
// when a signal comes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime/debug"

	"knative.dev/pkg/injection"
	"knative.dev/pkg/injection/sharedmain"
	"knative.dev/pkg/signals"
	"knative.dev/pkg/system"
)

// component names the process in logs, leases and metrics.
const component = "controller"

// The API server's client is shared by everything: one write for each event and
// one for its acknowledgement. The defaults of client-go (5 a second) would make
// a burst of a few thousand events last for minutes.
const (
	qps   = 400
	burst = 800
)

// gcPercent bounds how much of the memory is garbage. What a large cluster needs is
// caches that hardly change, which are cheap to look through and dear to hold twice.
const gcPercent = 50

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// run returns when a signal has come, or with the reason why it cannot go on.
func run() error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	disableHA := flag.Bool("disable-ha", false, "Run without leader election. Only for a single replica.")
	cfg := injection.ParseAndGetRESTConfigOrDie()
	if cfg.QPS == 0 {
		cfg.QPS, cfg.Burst = qps, burst
	}
	if err := checkNamespace(system.Namespace()); err != nil {
		return err
	}
	stopping, end := context.WithCancelCause(signals.NewContext())
	defer end(nil)
	p := newProcess(stopping, end, cfg)
	ctx := p.handover()
	if *disableHA {
		ctx = sharedmain.WithHADisabled(ctx)
	}
	sharedmain.MainWithConfig(ctx, component, cfg, p.serviceController, p.sourceController)
	p.wait()
	if err := context.Cause(stopping); errors.Is(err, errReverted) {
		return err
	}
	return nil
}

// notSet is what a package for tests, which comes in with Eventing's types, sets
// SYSTEM_NAMESPACE to where it is not set.
const notSet = "knative-testing"

// checkNamespace refuses to start where nobody said in which namespace the ledger
// is: it would be looked for in one that does not exist.
func checkNamespace(namespace string) error {
	if namespace == notSet {
		return fmt.Errorf("the environment variable %s is not set; set it to the namespace of the controller, "+
			"as config/500-controller.yaml does from the pod's own", system.NamespaceEnvKey)
	}
	return nil
}
