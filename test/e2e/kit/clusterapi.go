// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"text/template"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

//go:embed clusterapi
var clusterAPI embed.FS

// ClusterAPI is a release of Cluster API that test/cluster can install.
type ClusterAPI struct {
	// Part is its name in test/cluster.
	Part string
	// API is the newest version of its kinds.
	API string
}

// The releases. They share their CRDs, so only one can be installed.
var (
	ClusterAPI113 = ClusterAPI{Part: "clusterapi", API: "v1beta2"}
	ClusterAPI110 = ClusterAPI{Part: "clusterapi-1.10", API: "v1beta1"}
)

// Pools of workers, by what their machines do.
const (
	QuickWorkers = "quick"
	// SlowWorkers have machines that do not start.
	SlowWorkers = "slow"
)

// Clusters is the resource of Cluster API's clusters.
func (c ClusterAPI) Clusters() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: c.API, Resource: "clusters"}
}

// ControlPlanes is the resource of kubeadm's control planes.
func (c ClusterAPI) ControlPlanes() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "controlplane.cluster.x-k8s.io", Version: c.API, Resource: "kubeadmcontrolplanes"}
}

// Class returns a ClusterClass with pools of QuickWorkers and SlowWorkers.
func (c ClusterAPI) Class(name string) (string, error) {
	ref := "templateRef"
	if c.API == "v1beta1" {
		ref = "ref"
	}
	return c.render("class.yaml", map[string]any{
		"Name": name, "Template": ref, "Workers": map[string]string{QuickWorkers: name, SlowWorkers: name + "-slow"},
	})
}

// Cluster returns a cluster of a class.
func (c ClusterAPI) Cluster(name, class, version, workers string) (string, error) {
	return c.Annotated(name, class, version, workers, nil)
}

// Annotated returns a cluster of a class with annotations.
func (c ClusterAPI) Annotated(name, class, version, workers string, annotations map[string]string) (string, error) {
	return c.render("cluster.yaml", map[string]any{"Name": name, "Class": class, "Version": version, "Worker": workers, "Annotations": annotations})
}

// Classless returns a cluster without a topology.
func (c ClusterAPI) Classless(name, version string) (string, error) {
	return c.render("classless.yaml", map[string]any{"Name": name, "Version": version})
}

func (c ClusterAPI) render(name string, values map[string]any) (string, error) {
	values["API"] = c.API
	t, err := template.New(name).Option("missingkey=error").ParseFS(clusterAPI, "clusterapi/"+name, "clusterapi/machine.yaml")
	if err != nil {
		return "", fmt.Errorf("parsing %s: %w", name, err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, values); err != nil {
		return "", fmt.Errorf("filling in %s: %w", name, err)
	}
	return b.String(), nil
}

// HasClusterAPI reports whether a release of Cluster API is installed that serves the same version of its kinds.
func (k Environments) HasClusterAPI(ctx context.Context, c ClusterAPI) (bool, error) {
	_, err := k.Dynamic.Resource(c.Clusters()).List(ctx, metav1.ListOptions{Limit: 1})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for Cluster API: %w", err)
	}
	return true, nil
}

// InstallClusterAPI installs a release on the cluster made by test/cluster, and returns when its webhooks answer.
func (k Environments) InstallClusterAPI(ctx context.Context, c ClusterAPI) error {
	if err := k.cluster(ctx, "up", "--with", c.Part); err != nil {
		return err
	}
	return k.waitClusterAPI(ctx, c)
}

// RemoveClusterAPI removes a release, with all objects of its kinds.
func (k Environments) RemoveClusterAPI(ctx context.Context, c ClusterAPI) error {
	return k.cluster(ctx, "remove", c.Part)
}

// waitClusterAPI waits until the API server reaches all webhooks of a class. Available Deployments are not enough: the
// rules for their Services follow a little later.
func (k Environments) waitClusterAPI(ctx context.Context, c ClusterAPI) error {
	class, err := c.Class("question")
	if err != nil {
		return err
	}
	return Wait(ctx, patience, "the webhooks of Cluster API", func(ctx context.Context) error {
		if err := k.kubectl(ctx, class, "apply", "--dry-run=server", "-n", "default"); err != nil {
			return NotYet("%v", err)
		}
		return nil
	})
}

// PatchCluster changes a cluster with a JSON patch of one operation.
func (k Environments) PatchCluster(ctx context.Context, c ClusterAPI, namespace, name, op, path string, value any) error {
	return k.patch(ctx, k.Dynamic.Resource(c.Clusters()).Namespace(namespace), name, op, path, value)
}

// PatchControlPlane changes the control plane of a cluster without a topology, with a JSON patch of one operation.
func (k Environments) PatchControlPlane(ctx context.Context, c ClusterAPI, namespace, name, op, path string, value any) error {
	return k.patch(ctx, k.Dynamic.Resource(c.ControlPlanes()).Namespace(namespace), name, op, path, value)
}

func (k *Kit) patch(ctx context.Context, of dynamic.ResourceInterface, name, op, path string, value any) error {
	operation := map[string]any{"op": op, "path": path}
	if op != "remove" {
		operation["value"] = value
	}
	data, err := json.Marshal([]any{operation})
	if err != nil {
		return fmt.Errorf("encoding a patch of %s: %w", name, err)
	}
	if _, err := of.Patch(ctx, name, types.JSONPatchType, data, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("changing %s of %s: %w", path, name, err)
	}
	return nil
}

// WaitCluster waits until a cluster is as wanted; want returns NotYet while it is not.
func (k Environments) WaitCluster(ctx context.Context, c ClusterAPI, namespace, name string, atMost time.Duration, want func(*unstructured.Unstructured) error) error {
	return Wait(ctx, atMost, "cluster "+name, func(ctx context.Context) error {
		o, err := k.Dynamic.Resource(c.Clusters()).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return want(o)
	})
}

// WaitClusterGone waits until a cluster does not exist.
func (k Environments) WaitClusterGone(ctx context.Context, c ClusterAPI, namespace, name string, atMost time.Duration) error {
	return Wait(ctx, atMost, "the deletion of cluster "+name, func(ctx context.Context) error {
		_, err := k.Dynamic.Resource(c.Clusters()).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			return NotYet("it exists")
		}
		return err
	})
}

// Conditions returns the conditions of a cluster by type, as Cluster API's newer contract has them: releases that serve
// only v1beta1 keep them apart.
func (c ClusterAPI) Conditions(o *unstructured.Unstructured) map[string]metav1.Condition {
	path := []string{"status", "conditions"}
	if c.API == "v1beta1" {
		path = []string{"status", "v1beta2", "conditions"}
	}
	list, _, _ := unstructured.NestedSlice(o.Object, path...) // absent or malformed: no conditions
	out := map[string]metav1.Condition{}
	for _, item := range list {
		m, ok := item.(map[string]any)
		if !ok {
			continue
		}
		generation, _, _ := unstructured.NestedInt64(m, "observedGeneration")
		text := func(key string) string { s, _, _ := unstructured.NestedString(m, key); return s }
		out[text("type")] = metav1.Condition{
			Type: text("type"), Status: metav1.ConditionStatus(text("status")), Reason: text("reason"), Message: text("message"), ObservedGeneration: generation,
		}
	}
	return out
}

// ClusterIs returns a condition for WaitCluster: the cluster's condition has the status.
func (c ClusterAPI) ClusterIs(condition string, status metav1.ConditionStatus) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		got := c.Conditions(o)[condition]
		if got.Status != status {
			return NotYet("%s is %q: %s: %s", condition, got.Status, got.Reason, got.Message)
		}
		return nil
	}
}

// Settled is a condition for WaitCluster: the last change of the cluster is rolled out everywhere.
func (c ClusterAPI) Settled(o *unstructured.Unstructured) error {
	all := c.Conditions(o)
	for _, want := range []struct {
		kind   string
		status metav1.ConditionStatus
	}{{"TopologyReconciled", "True"}, {"Available", "True"}, {"RollingOut", "False"}, {"ScalingUp", "False"}, {"ScalingDown", "False"}} {
		got, ok := all[want.kind]
		if want.kind == "TopologyReconciled" && !ok {
			continue
		}
		if got.Status != want.status || got.ObservedGeneration != o.GetGeneration() {
			return NotYet("%s is %q at generation %d of %d: %s: %s", want.kind, got.Status, got.ObservedGeneration, o.GetGeneration(), got.Reason, got.Message)
		}
	}
	return nil
}

// DeleteCRD deletes a CRD, and with it all objects of its kind, and returns when it is gone.
func (k *Kit) DeleteCRD(ctx context.Context, name string) error {
	crds := k.Dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if err := crds.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting a CRD: %w", err)
	}
	return Wait(ctx, 3*time.Minute, "the deletion of CRD "+name, func(ctx context.Context) error {
		_, err := crds.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			return NotYet("it exists")
		}
		return err
	})
}

// machines is where the program runs that keeps machines in its memory.
const machines = "capd-system"

// SteadyMachines lets the program that keeps machines in memory be stopped for longer than its liveness probe allows.
// It restarts it, so no cluster may exist yet.
func (k Environments) SteadyMachines(ctx context.Context, c ClusterAPI) error {
	all := k.Kube.AppsV1().Deployments(machines)
	patch := []byte(`[{"op": "remove", "path": "/spec/template/spec/containers/0/livenessProbe"}]`)
	d, err := all.Patch(ctx, "capd-controller-manager", types.JSONPatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("removing the liveness probe of the machines: %w", err)
	}
	err = Wait(ctx, patience, "Deployment "+d.Name, func(ctx context.Context) error {
		d, err := all.Get(ctx, d.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s := d.Status; s.ObservedGeneration < d.Generation || s.UpdatedReplicas < 1 || s.AvailableReplicas < 1 || s.Replicas > 1 {
			return NotYet("%d of %d replicas are new, %d are available", s.UpdatedReplicas, s.Replicas, s.AvailableReplicas)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return k.waitClusterAPI(ctx, c)
}

// SignalMachines sends STOP or CONT to the program that keeps the machines and their API servers in its memory, so that
// all clusters stop answering.
func (k Environments) SignalMachines(ctx context.Context, signal string) error {
	pods, err := k.Workloads.pods(ctx, machines, "")
	if err != nil {
		return err
	}
	for _, p := range pods {
		if p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodRunning {
			continue
		}
		if err := k.cluster(ctx, "signal", signal, string(p.UID)); err != nil {
			return err
		}
	}
	return nil
}
