// SPDX-License-Identifier: Apache-2.0

// Package kit is shared by the end-to-end tests and the demo: a cluster, images for it, the controller on it, Knative
// Services, and requests to them.
//
// Invariant: it works on the cluster that KUBECONFIG names. The program that CLUSTER_PROGRAM names provides what only
// a cluster made by test/cluster has, such as its audit log and its registry. Without that program, such a request
// returns an error that says so.
package kit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	serving "knative.dev/serving/pkg/client/clientset/versioned"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
)

const product = "github.com/knative-cdevents/knative-cdevents"

// Namespace is where the controller is installed.
const Namespace = "knative-cdevents"

// Kit is the connection to one cluster.
type Kit struct {
	Config  *rest.Config
	Kube    kubernetes.Interface
	Serving serving.Interface
	Dynamic dynamic.Interface
	// Ours is the client for this project's kinds.
	Ours *client.Clientset

	// What the tests drive, each with methods of its own.
	Controller   Controller
	Injector     Injector
	Serverless   Serverless
	Services     Services
	Carts        Carts
	Workloads    Workloads
	Environments Environments
	Flows        Flows
	Prometheus   Prometheus

	root    string
	program string
	// flows counts who uses what flows create outside of namespaces.
	flows users
}

type (
	// Controller is the controller under test: its installation, its replicas, their leases and metrics.
	Controller struct{ *Kit }
	// Services are Knative Services, their domains and the ingress in front of them.
	Services struct{ *Kit }
	// Carts are the sharded applications, and the requests to them.
	Carts struct{ *Kit }
	// Workloads are pods and what runs in them.
	Workloads struct{ *Kit }
	// Environments are Cluster API, Crossplane, and objects of their kinds.
	Environments struct{ *Kit }
	// Flows are the Tekton flows of the documentation.
	Flows struct{ *Kit }
	// Prometheus is the cluster's Prometheus.
	Prometheus struct{ *Kit }
)

// New connects to the cluster of KUBECONFIG.
func New(ctx context.Context) (*Kit, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig (is KUBECONFIG set?): %w", err)
	}
	config.QPS, config.Burst = 200, 400
	// The API server's warnings are irrelevant here.
	config.WarningHandler = rest.NoWarnings{}
	k := &Kit{Config: config, program: os.Getenv("CLUSTER_PROGRAM")}
	k.Controller, k.Services, k.Carts, k.Workloads = Controller{k}, Services{k}, Carts{k}, Workloads{k}
	k.Injector, k.Environments, k.Flows, k.Prometheus = Injector{k}, Environments{k}, Flows{k}, Prometheus{k}
	k.Serverless = Serverless{k}
	root, rerr := run(ctx, "", nil, "go", "list", "-m", "-f", "{{.Dir}}", product)
	k.root = strings.TrimSpace(root)
	var errs [4]error
	k.Kube, errs[0] = kubernetes.NewForConfig(config)
	k.Serving, errs[1] = serving.NewForConfig(config)
	k.Dynamic, errs[2] = dynamic.NewForConfig(config)
	k.Ours, errs[3] = client.New(config)
	if err := errors.Join(append(errs[:], rerr)...); err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return k, nil
}

// Path returns the path of a file in the checkout.
func (k *Kit) Path(elem ...string) string {
	return filepath.Join(append([]string{k.root}, elem...)...)
}

// notYetError is returned by a condition for Wait while it is not fulfilled.
type notYetError struct{ why string }

func (e notYetError) Error() string { return e.why }

// NotYet makes Wait poll again; its text says what is missing.
func NotYet(format string, args ...any) error { return notYetError{fmt.Sprintf(format, args...)} }

// Patience multiplies the time of each Wait, for slow machines and large tests.
var Patience = 1

// Wait polls ask until it returns nil or an error other than NotYet, or until time is up.
func Wait(ctx context.Context, atMost time.Duration, what string, ask func(context.Context) error) error {
	began := time.Now()
	atMost *= time.Duration(Patience)
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	var last error
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		var again notYetError
		notYet := errors.As(err, &again)
		if !notYet && ctx.Err() == nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		// A poll that the deadline interrupted says less than the one before.
		if notYet || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %s for %s: %w", time.Since(began).Round(time.Second), what, errors.Join(last, context.Cause(ctx)))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// run runs a program and returns its standard output; its standard error becomes part of the error.
func run(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	// Interrupt it, so that it ends its own children; a killed program could not.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return "", fmt.Errorf("%s %s: %w", filepath.Base(name), strings.Join(args, " "), ctx.Err())
	}
	if err != nil {
		// Some programs print what is wrong, such as kubectl cdevents check.
		return "", fmt.Errorf("%s %s: %w\n%s\n%s",
			filepath.Base(name), strings.Join(args, " "), err, tail(string(out)), tail(said.String()))
	}
	return string(out), nil
}

// tail returns the last 30 lines of a text.
func tail(text string) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-30):], "\n")
}
