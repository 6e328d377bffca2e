// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/host"
)

// bootstrap does what an installer does once the API server answers. It also deletes leases: only the cluster program
// knows that their holders are dead, and controllers would otherwise wait for a minute.
func (n *Node) bootstrap(ctx context.Context) error {
	roles, err := n.render("roles.yaml")
	if err != nil {
		return err
	}
	if _, err := n.kubectl(ctx, roles, "apply", "--server-side", "--force-conflicts", "-f", "-"); err != nil {
		return fmt.Errorf("granting the API server access to the kubelet: %w", err)
	}
	if n.cleared.IsZero() {
		return nil
	}
	_, err = n.kubectl(ctx, "", "delete", "leases", "--all-namespaces",
		"--field-selector=metadata.namespace!=kube-node-lease,metadata.namespace!=kube-system")
	if err != nil {
		return fmt.Errorf("deleting the leases of dead processes: %w", err)
	}
	return nil
}

func (n *Node) kubectl(ctx context.Context, in string, args ...string) (string, error) {
	return host.Run(ctx, in, n.Kubectl(), append([]string{"--kubeconfig", Kubeconfig()}, args...)...)
}
