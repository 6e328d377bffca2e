// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/host"
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

// cutTable is the table with the rules of Cut.
const cutTable = Name + "-cut"

// Cut cuts a pod off from all other pods, except those with the given addresses, by its own one. The machine still
// reaches it, so that kubelet does not take it for dead: on a node that is cut off, it would not either. A pod that was
// cut off before is connected again.
func (*Node) Cut(ctx context.Context, pod string, except ...string) error {
	rules, err := cutRules(pod, except)
	if err != nil {
		return err
	}
	if _, err := host.Run(ctx, rules, "nft", "-f", "-"); err != nil {
		return fmt.Errorf("cutting pod %s off: %w", pod, err)
	}
	return nil
}

// cutRules returns the rules for nft. All traffic between pods is routed, and so is that to Services, after kube-proxy
// has replaced the address.
func cutRules(pod string, except []string) (string, error) {
	for _, address := range append([]string{pod}, except...) {
		if a, err := netip.ParseAddr(address); err != nil || !a.Is4() {
			return "", fmt.Errorf("%q is not the IPv4 address of a pod", address)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "table ip %s\ndelete table ip %[1]s\ntable ip %[1]s {\n\tchain forward {\n", cutTable)
	fmt.Fprintln(&b, "\t\ttype filter hook forward priority filter; policy accept;")
	if all := strings.Join(except, ", "); all != "" {
		fmt.Fprintf(&b, "\t\tip saddr %s ip daddr { %s } accept\n\t\tip daddr %[1]s ip saddr { %[2]s } accept\n", pod, all)
	}
	fmt.Fprintf(&b, "\t\tip saddr %s drop\n\t\tip daddr %[1]s drop\n\t}\n}\n", pod)
	return b.String(), nil
}

// Mend reverts Cut.
func (*Node) Mend(ctx context.Context) error {
	have, err := host.Tables(ctx, []string{"ip " + cutTable})
	if err != nil || len(have) == 0 {
		return err
	}
	if _, err := host.Run(ctx, "", "nft", "delete", "table", "ip", cutTable); err != nil {
		return fmt.Errorf("connecting the pod again: %w", err)
	}
	return nil
}
