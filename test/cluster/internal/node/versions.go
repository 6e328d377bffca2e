// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/store"
)

func versionsFile() string { return filepath.Join(Dir, "versions.json") }

// Versions returns the versions that the builder of the cluster on this machine has chosen; nothing if there is no
// cluster. A later command, which need not repeat them, must not restart its programs in another version.
func Versions() (map[string]string, error) {
	versions := map[string]string{}
	data, err := os.ReadFile(versionsFile())
	if errors.Is(err, fs.ErrNotExist) {
		return versions, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &versions)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the versions that the cluster runs: %w", err)
	}
	return versions, nil
}

func (n *Node) rememberVersions() error {
	data, err := json.Marshal(n.builder.Chosen())
	if err != nil {
		return fmt.Errorf("recording the versions that the cluster runs: %w", err)
	}
	// Users who share the kubeconfig read it too.
	return store.PublishFile(versionsFile(), data, 0o644)
}
