// SPDX-License-Identifier: Apache-2.0

// The core of the serverless mode receives rings, and answers each with what has happened to the Knative Services that
// it is about. It runs while it is rung: as a Knative Service, or behind a Service of Kubernetes.
//
// It only wires. What it does is in reconciler/oneshot, and who may ring in reconciler/oneshot/receiver.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/system"
	"knative.dev/pkg/version"

	"github.com/knative-cdevents/knative-cdevents/emitter/delivery"
	"github.com/knative-cdevents/knative-cdevents/reconciler/authserver"
	"github.com/knative-cdevents/knative-cdevents/reconciler/oneshot"
	"github.com/knative-cdevents/knative-cdevents/reconciler/oneshot/receiver"
	"github.com/knative-cdevents/knative-cdevents/reconciler/service"
)

const (
	// qps and burst are the controller's: a sweep looks at all Services.
	qps   = 400
	burst = 800
	// reviewsQPS and reviewsBurst are for the tokens of senders, and apart from that.
	reviewsQPS   = 10
	reviewsBurst = 20
	// lastAnswers is how long the end of the process waits for what is not answered yet. Kubernetes gives it 30 s.
	lastAnswers = 20 * time.Second
	// collect has Go's collector run when the heap has grown by so many percent: most of what a ring reads is garbage
	// when it has been answered. GOGC overrules it.
	collect = 40
	// defaultAudience is that of tokens for the core. One for anything else is refused, because whoever sees it could
	// act as its owner.
	defaultAudience = "knative-cdevents-core"
)

func main() {
	log, err := zap.NewProduction()
	if err == nil {
		err = run(log.Sugar(), os.Args[1:], os.Getenv)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "The core ends:", err)
		os.Exit(1)
	}
}

// config are the settings.
type config struct {
	listen, kubeconfig, namespace, audience string
	senders                                 []types.NamespacedName
	within                                  time.Duration
	atOnce                                  int
}

// run returns after a signal, or with the reason why the process cannot continue.
func run(log *zap.SugaredLogger, args []string, getenv func(string) string) error {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(collect)
	}
	c, err := settings(args, getenv)
	if err != nil {
		return fmt.Errorf("the settings are not right: %w", err)
	}
	ctx, stop := signal.NotifyContext(logging.WithLogger(context.Background(), log), os.Interrupt, syscall.SIGTERM)
	defer stop()
	h, err := c.handler(ctx)
	if err != nil {
		return fmt.Errorf("starting: %w", err)
	}
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	served := make(chan error, 1)
	go func() { served <- authserver.Serve(serving, c.listen, "", h) }()
	log.Infow("Receiving rings", "address", c.listen, "audience", c.audience, "senders", c.senders)
	select {
	case err := <-served:
		return fmt.Errorf("receiving rings: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(serving, lastAnswers)
	defer cancel()
	closing := h.Close(last)
	end()
	return errors.Join(closing, <-served)
}

// handler connects to the API server.
func (c config) handler(ctx context.Context) (*receiver.Handler, error) {
	access, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("looking for the API server: %w", err)
	}
	access.QPS, access.Burst = qps, burst
	if err := checkVersions(ctx, access); err != nil {
		return nil, err
	}
	exported, err := exportMetrics()
	if err != nil {
		return nil, fmt.Errorf("making the metrics: %w", err)
	}
	metrics, err := delivery.NewInstruments() //nolint:contextcheck // counters start at zero
	if err != nil {
		return nil, fmt.Errorf("making the metrics: %w", err)
	}
	rings, err := receiver.NewInstruments() //nolint:contextcheck // counters start at zero
	if err != nil {
		return nil, fmt.Errorf("making the metrics: %w", err)
	}
	options, err := oneshot.Connect(ctx, access, c.namespace, metrics)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	// What then is still to be written has the rest of the time.
	options.Within = c.within * 2 / 3
	var reviews [2]kubernetes.Interface
	for i := range reviews {
		own := rest.CopyConfig(access)
		own.QPS, own.Burst, own.RateLimiter = reviewsQPS, reviewsBurst, nil
		if reviews[i], err = kubernetes.NewForConfig(own); err != nil {
			return nil, fmt.Errorf("making a client for reviews of tokens: %w", err)
		}
	}
	core := oneshot.New(options)
	if err := delivery.WatchPending(core.Standings); err != nil {
		return nil, fmt.Errorf("making the metrics: %w", err)
	}
	return (&receiver.Handler{
		Core: core, Guard: receiver.NewSenders(reviews[0], reviews[1], c.audience, c.senders...),
		Logger: logging.FromContext(ctx), Within: c.within, AtOnce: c.atOnce,
		Instruments: rings, Metrics: exported,
	}).Init(), nil
}

// checkVersions returns an error if Kubernetes is older than Knative's libraries accept, or Knative Serving older than
// is supported, as the controller does.
func checkVersions(ctx context.Context, access *rest.Config) error {
	client, err := discovery.NewDiscoveryClientForConfig(access)
	if err != nil {
		return fmt.Errorf("making a client for the version of Kubernetes: %w", err)
	}
	if err := version.CheckMinimumVersion(client); err != nil {
		return fmt.Errorf("checking the version of Kubernetes: %w", err)
	}
	definitions, err := metadata.NewForConfig(access)
	if err != nil {
		return fmt.Errorf("making a client for the version of Knative Serving: %w", err)
	}
	if err := service.CheckVersion(ctx, definitions); err != nil {
		return fmt.Errorf("checking the version of Knative Serving: %w", err)
	}
	return nil
}

// settings reads the flags. What Knative says of the port is the default.
func settings(args []string, getenv func(string) string) (config, error) {
	c := config{}
	f := flag.NewFlagSet("core", flag.ContinueOnError)
	f.StringVar(&c.listen, "listen", ":"+cmp.Or(getenv("PORT"), "8080"), "Address of rings, /healthz and /metrics. By default, that of PORT.")
	f.StringVar(&c.kubeconfig, "kubeconfig", "", "File with the access to the API server. In a pod, its own by default.")
	f.StringVar(&c.namespace, "namespace", getenv(system.NamespaceEnvKey), "Namespace of the controller. By default, SYSTEM_NAMESPACE.")
	f.StringVar(&c.audience, "audience", defaultAudience, "Audience that the tokens of senders must have.")
	senders := f.String("senders", "", "ServiceAccounts that may ring, as NAMESPACE/NAME, separated by commas: those of ApiServerSources, "+
		"PingSources or Triggers, too. By default, doorbell in the namespace of the controller.")
	f.DurationVar(&c.within, "answer-timeout", receiver.DefaultWithin,
		"Time within which a ring is answered. It must be less than its sender waits.")
	f.IntVar(&c.atOnce, "parallel", receiver.DefaultAtOnce, "Number of rings that are answered at once, apart from the sweep.")
	if err := f.Parse(args); err != nil {
		return c, err //nolint:wrapcheck // it names the flag
	}
	switch {
	case f.NArg() > 0:
		return c, fmt.Errorf("%q is not a flag; all settings are flags, such as --senders=knative-cdevents/doorbell", f.Arg(0))
	case c.namespace == "":
		return c, fmt.Errorf("the namespace of the controller is not set; set %s to it, or --namespace", system.NamespaceEnvKey)
	case c.audience == "":
		return c, errors.New("--audience is empty; it must be one that no token for anything else has, such as " + defaultAudience)
	case c.within < time.Second:
		return c, fmt.Errorf("--answer-timeout is %v; it must be at least 1s", c.within)
	case c.atOnce < 1:
		return c, fmt.Errorf("--parallel is %d; it must be at least 1", c.atOnce)
	}
	for _, sender := range strings.Split(cmp.Or(*senders, c.namespace+"/doorbell"), ",") {
		namespace, name, _ := strings.Cut(sender, "/")
		if namespace == "" || name == "" || strings.Contains(name, "/") {
			return c, fmt.Errorf("--senders has %q; each must be a ServiceAccount, such as knative-cdevents/doorbell", sender)
		}
		c.senders = append(c.senders, types.NamespacedName{Namespace: namespace, Name: name})
	}
	return c, nil
}
