// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// prod is the environment, and its versions of Kubernetes.
const (
	prod      = "prod"
	prodOlder = "v1.32.4"
	prodNewer = "v1.33.1"
)

// provisionTime bounds the wait for each change of the environment.
const provisionTime = 5 * time.Minute

// environment shows the life of a cluster that Cluster API provisions. It needs the cluster of the demo, because it
// installs Cluster API.
func (d *demo) environment(ctx context.Context) error {
	if !d.environments || d.existing {
		return nil
	}
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()

	d.out.chapter("12. An environment: a cluster that Cluster API provisions")
	release := kit.ClusterAPI113
	done := d.out.doing("installing Cluster API, whose machines exist in memory, and letting the controller read its clusters")
	if err := d.kit.Environments.InstallClusterAPI(ctx, release); err != nil {
		return err
	}
	if err := d.kit.Environments.SteadyMachines(ctx, release); err != nil {
		return err
	}
	if _, err := d.kit.Environments.GrantEnvironments(ctx); err != nil {
		return err
	}
	class, err := release.Class("memory")
	if err != nil {
		return err
	}
	if err := d.kit.Apply(ctx, namespace, class); err != nil {
		return err
	}
	done("config/optional/environments has the roles")

	events, err := d.provision(ctx, release, &running)
	if err != nil {
		return err
	}
	clusters := d.kit.Dynamic.Resource(release.Clusters()).Namespace(namespace)
	d.out.command("kubectl patch cluster " + prod + " --type merge -p '{\"spec\": {\"topology\": {\"version\": \"" + prodNewer + "\"}}}'")
	if err := d.kit.Environments.PatchCluster(ctx, release, namespace, prod, "replace", "/spec/topology/version", prodNewer); err != nil {
		return err
	}
	if err := events.waitFor(ctx, "environment.modified", 1, provisionTime); err != nil {
		return err
	}
	d.out.command("kubectl delete cluster " + prod)
	if err := clusters.Delete(ctx, prod, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting the cluster: %w", err)
	}
	if err := events.waitFor(ctx, "environment.deleted", 1, provisionTime); err != nil {
		return err
	}
	d.out.note("docs/environments.md says which kinds are environments, and config/tekton/environments begins a flow with each new one")
	return nil
}

// provision creates the environment, begins to show its events, and waits until it is ready.
func (d *demo) provision(ctx context.Context, release kit.ClusterAPI, running *sync.WaitGroup) (*display, error) {
	clusters := d.kit.Dynamic.Resource(release.Clusters()).Namespace(namespace)
	// Remains of an interrupted run.
	err := clusters.Delete(ctx, prod, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("deleting the cluster of an earlier run: %w", err)
	}
	err = kit.Wait(ctx, provisionTime, "the end of the cluster of an earlier run", func(ctx context.Context) error {
		_, err := clusters.Get(ctx, prod, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return fmt.Errorf("reading the cluster: %w", err)
		}
		return kit.NotYet("it is being deleted")
	})
	if err != nil {
		return nil, err
	}
	pod, err := d.displayPod(ctx)
	if err != nil {
		return nil, err
	}
	d.out.command("kubectl apply -f " + prod + ".yaml # a Cluster with a control plane and a worker, Kubernetes " + prodOlder)
	from := time.Now().Add(-10 * time.Second)
	manifest, err := release.Cluster(prod, "memory", prodOlder, kit.QuickWorkers)
	if err != nil {
		return nil, err
	}
	if err := d.kit.Apply(ctx, namespace, manifest); err != nil {
		return nil, err
	}
	cluster, err := clusters.Get(ctx, prod, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the cluster: %w", err)
	}
	events := &display{}
	running.Go(func() {
		// Whoever waits for an event reports the error.
		_ = events.follow(ctx, d.kit, pod, from, string(cluster.GetUID()), d.out.event)
	})
	return events, events.waitFor(ctx, "environment.created", 1, provisionTime)
}
