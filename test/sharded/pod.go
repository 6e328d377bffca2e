// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/cluster/clusterproviders/k8s"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// remotePort is where members reach each other at the pod's address. The container need not declare it.
const remotePort = 6331

// pod is the pod of this process.
type pod struct {
	client          kubernetes.Interface
	namespace, name string
	address         string
}

// findPod asks the API server, because Knative rejects fieldRef in a template by default.
func findPod(ctx context.Context, name string) (*pod, error) {
	restConfig, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("this program runs in pods only: %w", err)
	}
	client, err := kubernetes.NewForConfig(restConfig)
	if err != nil {
		return nil, fmt.Errorf("reaching the API server: %w", err)
	}
	namespace, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return nil, fmt.Errorf("asking for the namespace: %w", err)
	}
	p := &pod{client: client, namespace: strings.TrimSpace(string(namespace)), name: name}
	// kubelet writes the address after it has started the containers.
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		found, err := client.CoreV1().Pods(p.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, fmt.Errorf("reading this pod (the Role must allow get, list, watch and patch of pods): %w", err)
		}
		p.address = found.Status.PodIP
		return p.address != "", nil
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for the address of pod %s/%s: %w", p.namespace, name, err)
	}
	return p, nil
}

// forget removes this pod from the member list.
//
// Trap 2: a restarted container finds the labels of its predecessor, and the provider keeps existing labels. The
// others block that id, so this member would forever run shards that nobody else knows: two live actors with one
// name. Without the labels it registers under a new id.
func (p *pod) forget(ctx context.Context) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"labels": map[string]any{k8s.LabelCluster: nil, k8s.LabelMemberID: nil},
	}})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	if _, err := p.client.CoreV1().Pods(p.namespace).Patch(ctx, p.name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("removing the former member's labels from this pod: %w", err)
	}
	return nil
}

func (p *pod) newMember(ctx context.Context, conf config, counts *counts) (*member, error) {
	provider, err := k8s.New()
	if err != nil {
		return nil, fmt.Errorf("preparing the cluster's provider: %w", err)
	}
	return newMember(ctx, conf, counts, provider, p.address, remotePort)
}
