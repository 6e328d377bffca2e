// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"encoding/base64"
	"fmt"
	"os"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/store"
)

const kubeconfigText = `apiVersion: v1
kind: Config
clusters:
- name: knative-cdevents
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: %s
  user:
    client-certificate-data: %s
    client-key-data: %s
contexts:
- name: knative-cdevents
  context: {cluster: knative-cdevents, user: %[3]q}
current-context: knative-cdevents
`

// WriteKubeconfig writes a self-contained kubeconfig: it refers to no other file.
func WriteKubeconfig(path, server, caFile, user string, client Pair) error {
	data := make([]string, 0, 3)
	for _, f := range []string{caFile, client.Cert, client.Key} {
		b, err := os.ReadFile(f) //nolint:gosec // paths in the cluster's own folder
		if err != nil {
			return fmt.Errorf("reading for the kubeconfig: %w", err)
		}
		data = append(data, base64.StdEncoding.EncodeToString(b))
	}
	text := fmt.Sprintf(kubeconfigText, server, data[0], user, data[1], data[2])
	return store.PublishFile(path, []byte(text), 0o600)
}
