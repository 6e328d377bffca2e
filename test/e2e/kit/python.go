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

// python packs Debian's Python, with its library and what both are linked with, under the name "python" too. $1 is the
// file to write, $2 an empty folder.
const python = `set -euo pipefail
version=$(/usr/bin/python3 -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
mkdir -p "$2/usr/local/bin"
ln -s "/usr/bin/$version" "$2/usr/local/bin/python"
linked=$({ ldd "/usr/bin/$version" /usr/lib/"$version"/lib-dynload/*.so || true; } 2>/dev/null | grep -oE '/[^ ]+\.so[^ ]*' | grep -v lib-dynload | sort -u)
tar -cf "$1" -C "$2" usr
tar -rhf "$1" --exclude=test --exclude=dist-packages --exclude=__pycache__ --exclude='config-*' -C / "usr/bin/$version" "usr/lib/$version" $(printf '%s\n' $linked | sed 's|^/||')
`

// PythonImage makes an image of this machine's Python, for manifests whose image cannot be pulled here.
func (k *Kit) PythonImage(ctx context.Context) (string, error) {
	if !k.Own() {
		return "", errors.New("an image of this machine's Python is for the cluster made by test/cluster")
	}
	dir, err := os.MkdirTemp("", "python-")
	if err != nil {
		return "", fmt.Errorf("packing Python: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // a leftover temporary folder does no harm
	layer, links := filepath.Join(dir, "layer.tar"), filepath.Join(dir, "links")
	if _, err := run(ctx, dir, nil, "bash", "-c", python, "bash", layer, links); err != nil {
		return "", fmt.Errorf("packing Python: %w", err)
	}
	out, err := run(ctx, k.root, nil, k.program, "image", "--layer", layer, "--name", "python", "--entrypoint", "/usr/local/bin/python")
	if err != nil {
		return "", fmt.Errorf("building an image of Python: %w", err)
	}
	return strings.TrimSpace(out), nil
}
