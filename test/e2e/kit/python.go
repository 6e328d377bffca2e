// SPDX-License-Identifier: Apache-2.0

package kit

import "context"

// python packs Debian's Python, with its library and what both are linked with, under the name "python" too. See
// localImage.
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
	return k.localImage(ctx, "python", "/usr/local/bin/python", python)
}
