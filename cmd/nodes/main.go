// SPDX-License-Identifier: Apache-2.0

// Command nodes lists the nodes of a new cluster. The Task of Pipeline new-environment runs it.
//
// Invariant: it reads one Secret and lists nodes, and writes nothing. It uses no credentials other than
// those in that Secret: a kubeconfig that runs a command or reads a file is refused, because whoever
// writes the Secret must not act as the ServiceAccount of this pod.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Getenv); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

const (
	// within is how long the new cluster's API server may take to answer.
	within = 2 * time.Minute
	// pause is the time between two attempts.
	pause = 2 * time.Second
	// perRequest bounds one request.
	perRequest = 15 * time.Second
)

// run reads the kubeconfig of the cluster that the environment names, and writes its nodes to the Task's
// results.
func run(ctx context.Context, getenv func(string) string) error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("looking for the API server: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return record(ctx, client, getenv)
}

// record writes the nodes of a cluster to the results.
func record(ctx context.Context, here kubernetes.Interface, getenv func(string) string) error {
	namespace, cluster := getenv("NAMESPACE"), getenv("CLUSTER")
	if namespace == "" || cluster == "" {
		return errors.New("NAMESPACE and CLUSTER must name a Cluster of Cluster API")
	}
	// Cluster API gives the Secret this name and this key.
	secret, err := here.CoreV1().Secrets(namespace).Get(ctx, cluster+"-kubeconfig", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the kubeconfig of %s/%s: %w", namespace, cluster, err)
	}
	config, err := access(secret.Data["value"])
	if err != nil {
		return fmt.Errorf("the kubeconfig of %s/%s: %w", namespace, cluster, err)
	}
	there, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client for %s/%s: %w", namespace, cluster, err)
	}
	nodes, err := list(ctx, there)
	if err != nil {
		return fmt.Errorf("listing the nodes of %s/%s: %w", namespace, cluster, err)
	}
	return write(getenv, nodes)
}
