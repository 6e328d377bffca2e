// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// envoy packs a program as /envoy, with what it is linked with. $1 is the file to write, $2 the program, $3 an empty
// folder.
const envoy = `set -euo pipefail
install -m 0755 "$2" "$3/envoy"
linked=$(ldd "$2" | grep -oE '/[^ ]+\.so[^ ]*' | sort -u)
tar -cf "$1" -C "$3" envoy
tar -rhf "$1" -C / $(printf '%s\n' $linked | sed 's|^/||')
`

// EnvoyImage makes an image of a program of Envoy on this machine.
func (k *Kit) EnvoyImage(ctx context.Context, program string) (string, error) {
	if !k.Own() {
		return "", errors.New("an image of this machine's Envoy is for the cluster made by test/cluster")
	}
	dir, err := os.MkdirTemp("", "envoy-")
	if err != nil {
		return "", fmt.Errorf("packing Envoy: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // a leftover temporary folder does no harm
	layer, tree := filepath.Join(dir, "layer.tar"), filepath.Join(dir, "tree")
	if err := os.Mkdir(tree, 0o700); err != nil {
		return "", fmt.Errorf("packing Envoy: %w", err)
	}
	if _, err := run(ctx, dir, nil, "bash", "-c", envoy, "bash", layer, program, tree); err != nil {
		return "", fmt.Errorf("packing Envoy: %w", err)
	}
	out, err := run(ctx, k.root, nil, k.program, "image", "--layer", layer, "--name", "envoy", "--entrypoint", "/envoy")
	if err != nil {
		return "", fmt.Errorf("building an image of Envoy: %w", err)
	}
	return strings.TrimSpace(out), nil
}
