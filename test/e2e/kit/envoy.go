// SPDX-License-Identifier: Apache-2.0

package kit

import "context"

// envoy packs a program as /envoy, with what it is linked with. $3 is the program; see localImage.
const envoy = `set -euo pipefail
install -D -m 0755 "$3" "$2/envoy"
linked=$(ldd "$3" | grep -oE '/[^ ]+\.so[^ ]*' | sort -u)
tar -cf "$1" -C "$2" envoy
tar -rhf "$1" -C / $(printf '%s\n' $linked | sed 's|^/||')
`

// EnvoyImage makes an image of a program of Envoy on this machine.
func (k *Kit) EnvoyImage(ctx context.Context, program string) (string, error) {
	return k.localImage(ctx, "envoy", "/envoy", envoy, program)
}
