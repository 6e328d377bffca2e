// SPDX-License-Identifier: Apache-2.0

// The controller watches Knative Services and sends CDEvents about them.
//
// This package only wires, and makes no decisions. Everything that it starts ends with the
// context of sharedmain, except sending, which ends as soon as a signal arrives.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"

	"knative.dev/pkg/injection"
	"knative.dev/pkg/injection/sharedmain"
	"knative.dev/pkg/signals"
	"knative.dev/pkg/system"
)

// component names the process in logs, leases and metrics.
const component = "controller"

// All parts share one API client, with one write per event and one per acknowledgement. At
// the default of client-go (5 per second) a burst of a few thousand events takes minutes.
const (
	qps   = 400
	burst = 800
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// run returns after a signal, or with the reason why the process cannot continue.
func run() error {
	disableHA := flag.Bool("disable-ha", false, "Run without leader election. Only for a single replica.")
	cfg := injection.ParseAndGetRESTConfigOrDie()
	if cfg.QPS == 0 {
		cfg.QPS, cfg.Burst = qps, burst
	}
	if err := checkNamespace(os.Getenv(system.NamespaceEnvKey)); err != nil {
		return err
	}
	stopping, end := context.WithCancelCause(signals.NewContext())
	defer end(nil)
	p := newProcess(stopping, end, cfg)
	c := &controllers{process: p}
	ctx := p.handover()
	if *disableHA {
		ctx = sharedmain.WithHADisabled(ctx)
	}
	sharedmain.MainWithConfig(ctx, component, cfg, c.serviceController, c.sourceController)
	p.wait()
	if err := context.Cause(stopping); errors.Is(err, errReverted) {
		return err
	}
	return nil
}

// checkNamespace returns an error if SYSTEM_NAMESPACE is not set: the namespace of the
// ledger would not exist.
func checkNamespace(namespace string) error {
	if namespace == "" {
		return fmt.Errorf("the environment variable %s is not set; set it to the namespace of the controller, "+
			"as config/500-controller.yaml does from the pod's own", system.NamespaceEnvKey)
	}
	return nil
}
