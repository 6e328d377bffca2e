// SPDX-License-Identifier: Apache-2.0

// The doorbell rings the core of the serverless mode when something changes that the core might report.
//
// It only wires. What it does is in reconciler/doorbell.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/knative-cdevents/knative-cdevents/reconciler/doorbell"
)

// What a pod has of its ServiceAccount.
const (
	account = "/var/run/secrets/kubernetes.io/serviceaccount/"
	// collect has Go's collector run when the heap has grown by so many percent. The heap is so small that this costs
	// little processor time, and otherwise most of the memory would be garbage.
	collect = 25
	// giveBackEvery is how often memory that is free is given back to the system: what a list took would stay otherwise.
	giveBackEvery = 20 * time.Second
)

func main() {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	if err := run(log, os.Args[1:], os.Getenv); err != nil && !errors.Is(err, flag.ErrHelp) {
		log.Error("The doorbell ends", "error", err)
		os.Exit(1)
	}
}

// run returns after a signal, or with the reason why the process cannot continue.
func run(log *slog.Logger, args []string, getenv func(string) string) error {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(collect)
	}
	config, listen, err := settings(args, getenv)
	if err != nil {
		return fmt.Errorf("the settings are not right: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	d, err := doorbell.New(config, log)
	if err != nil {
		return fmt.Errorf("starting: %w", err)
	}
	server := &http.Server{
		Addr: listen, Handler: d.Handler(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute,
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("listening for probes and metrics: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	go giveBack(ctx)
	d.Run(ctx)
	if err := errors.Join(server.Close(), <-ended); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving probes and metrics: %w", err)
	}
	return nil
}

// giveBack gives memory back until the context ends. It takes a few milliseconds.
func giveBack(ctx context.Context) {
	ticker := time.NewTicker(giveBackEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			debug.FreeOSMemory()
		}
	}
}

// settings reads the flags. What a pod knows of the API server is their default.
func settings(args []string, getenv func(string) string) (doorbell.Config, string, error) {
	c := doorbell.Defaults
	server := ""
	if host := getenv("KUBERNETES_SERVICE_HOST"); host != "" {
		server = "https://" + net.JoinHostPort(host, cmp.Or(getenv("KUBERNETES_SERVICE_PORT"), "443"))
	}
	f := flag.NewFlagSet("doorbell", flag.ContinueOnError)
	f.StringVar(&c.Core.URL, "core", "", "URL of the core. Required.")
	f.StringVar(&c.Core.CAFile, "core-ca-file", "",
		"File with the certificates that the core is trusted by. By default, the system's. It may be replaced.")
	f.StringVar(&c.Core.TokenFile, "core-token-file", "",
		"File with the token for the core: that of a projected volume, with the audience of the core. It may be replaced.")
	f.StringVar(&c.API.URL, "server", server, "URL of the API server. In a pod, its own by default.")
	f.StringVar(&c.API.CAFile, "server-ca-file", account+"ca.crt", "File with the certificates that the API server is trusted by.")
	f.StringVar(&c.API.TokenFile, "server-token-file", account+"token", "File with the token for the API server.")
	f.StringVar(&c.Namespace, "namespace", getenv("SYSTEM_NAMESPACE"), "Namespace of the controller. By default, SYSTEM_NAMESPACE.")
	f.StringVar(&c.Lease, "lease", c.Lease, "Name of the Lease that stores which changes are answered.")
	f.DurationVar(&c.SweepEvery, "sweep-interval", c.SweepEvery,
		"Time between two rings for which the core looks for what no change shows.")
	f.DurationVar(&c.RingWithin, "ring-timeout", c.RingWithin,
		"Time within which the core must answer. If it is scaled to zero, it must start in this time, too.")
	f.IntVar(&c.Parallel, "parallel", c.Parallel, "Number of rings that may be under way at once.")
	f.IntVar(&c.MostWaiting, "most-waiting", c.MostWaiting,
		"Number of keys that may wait for an answer. While there are as many, no more changes are read.")
	listen := f.String("listen", ":9090", "Address of /healthz and /metrics.")
	if err := f.Parse(args); err != nil {
		return c, "", err //nolint:wrapcheck // it names the flag
	}
	if f.NArg() > 0 {
		return c, "", fmt.Errorf("%q is not a flag; all settings are flags, such as --core=https://core.example.com", f.Arg(0))
	}
	return c, *listen, nil
}
