// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"syscall"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/kube"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/pki"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/proc"
)

// Compact deletes all former states of all objects from etcd, and returns the revision of the
// compaction.
func (n *Node) Compact(ctx context.Context) (revision string, err error) {
	pair := pki.Pair{Cert: n.path("pki", "etcd-client.crt"), Key: n.path("pki", "etcd-client.key")}
	etcd, err := kube.New(fmt.Sprintf("https://127.0.0.1:%d", etcdPort), n.path("pki", "etcd-ca.crt"), pair)
	if err != nil {
		return "", err
	}
	// Every response contains the current revision.
	var answer struct{ Header struct{ Revision string } }
	if err := ask(ctx, etcd, "/v3/kv/range", map[string]any{"key": []byte("/"), "count_only": true}, &answer); err != nil {
		return "", err
	}
	revision = answer.Header.Revision
	return revision, ask(ctx, etcd, "/v3/kv/compaction", map[string]any{"revision": revision, "physical": true}, &answer)
}

// ask sends a request to etcd's JSON gateway.
func ask(ctx context.Context, etcd *kube.Client, path string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encoding a request to etcd: %w", err)
	}
	text, err := etcd.Post(ctx, path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("requesting etcd: %w", err)
	}
	if err := json.Unmarshal([]byte(text), answer); err != nil {
		return fmt.Errorf("reading etcd's response to %s: %w", path, err)
	}
	return nil
}

// Signal sends a signal to every process of a pod, or of a container of it as UID/ID.
func (n *Node) Signal(sig syscall.Signal, podUID string) error {
	processes := proc.ByID(n.cgroups.PodPIDs(podUID))
	if len(processes) == 0 {
		return fmt.Errorf("no pod with UID %q runs on this node", podUID)
	}
	var errs []error
	for _, p := range processes {
		if err := p.Signal(sig); err != nil {
			errs = append(errs, fmt.Errorf("sending %s to process %d (%s): %w", sig, p.PID, p.Command, err))
		}
	}
	return errors.Join(errs...)
}
