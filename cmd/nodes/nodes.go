// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// maxNodes bounds the list, and maxResult the result in bytes of JSON: Tekton keeps 4 KiB of all results of a
// Task.
const (
	maxNodes  = 500
	maxResult = 2 << 10
)

// list asks until the cluster answers: its endpoint may not be known everywhere yet.
func list(ctx context.Context, client kubernetes.Interface) ([]corev1.Node, error) {
	for {
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: maxNodes})
		if err == nil {
			return nodes.Items, nil
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}

// write records the number of nodes, and a line for each with its name and the version of its kubelet.
func write(getenv func(string) string, nodes []corev1.Node) error {
	var lines strings.Builder
	size := 0
	for _, n := range nodes {
		// A kubelet may not have reported yet, and the other cluster chooses what is written here.
		line := sanitize.Visible(strings.TrimSpace(n.Name+" "+n.Status.NodeInfo.KubeletVersion)) + "\n"
		if size += lifecycle.JSONSize(line); size > maxResult {
			lines.WriteString("…\n")
			break
		}
		lines.WriteString(line)
	}
	for name, value := range map[string]string{"COUNT": strconv.Itoa(len(nodes)), "NODES": lines.String()} {
		if err := os.WriteFile(getenv("RESULT_"+name), []byte(value), 0o644); err != nil { //nolint:gosec // Tekton reads it as another user
			return fmt.Errorf("writing result %s: %w", name, err)
		}
	}
	fmt.Print(lines.String())
	return nil
}
