// Package kit is what the end-to-end tests and the demo have in common: a cluster, images for it, the
// controller on it, Knative Services and requests to them.
//
// Invariant: it works on whatever cluster KUBECONFIG names. What only the cluster made by test/cluster can
// do (its audit log, its registry) is asked of the program that CLUSTER_PROGRAM names, and an error says so
// where there is none.
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

// Namespace that the controller is installed in.
const Namespace = "knative-cdevents"

// Kit reaches one cluster.
type Kit struct {
	Config  *rest.Config
	Kube    kubernetes.Interface
	Serving serving.Interface
	Dynamic dynamic.Interface
	// Ours reaches the kinds of this project.
	Ours *client.Clientset

	root    string
	program string
}

// New connects to the cluster of KUBECONFIG.
func New(ctx context.Context) (*Kit, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig (is KUBECONFIG set?): %w", err)
	}
	config.QPS, config.Burst = 200, 400
	// What the API server would rather have otherwise is not what is looked at here.
	config.WarningHandler = rest.NoWarnings{}
	k := &Kit{Config: config, program: os.Getenv("CLUSTER_PROGRAM")}
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

// Path of a file in the checkout.
func (k *Kit) Path(elem ...string) string {
	return filepath.Join(append([]string{k.root}, elem...)...)
}

// notYetError is what a condition that Wait polls returns as long as there is more to wait for.
type notYetError struct{ why string }

func (e notYetError) Error() string { return e.why }

// NotYet tells Wait to ask again, and what it waits for.
func NotYet(format string, args ...any) error { return notYetError{fmt.Sprintf(format, args...)} }

// Wait asks until ask returns nil, an error other than NotYet, or the time is over.
func Wait(ctx context.Context, atMost time.Duration, what string, ask func(context.Context) error) error {
	began := time.Now()
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
		// A question that was cut off by the end says less than the answer before it.
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

// run starts a program and returns what it prints; its complaints go into the error.
func run(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	// It ends what it started when told to end; killed, it could not.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return "", fmt.Errorf("%s %s: %w", filepath.Base(name), strings.Join(args, " "), ctx.Err())
	}
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, tail(said.String(), 30))
	}
	return string(out), nil
}

// tail is the last lines of a text.
func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
