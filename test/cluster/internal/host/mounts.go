// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
)

// MountsBelow lists the mount points below a folder, the deepest first: the order in which they must be
// unmounted.
func MountsBelow(dir string) ([]string, error) {
	data, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, fmt.Errorf("reading the mounts: %w", err)
	}
	return mountsBelow(string(data), dir), nil
}

func mountsBelow(table, dir string) []string {
	var found []string
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		if p := unescape(f[1]); strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/") {
			found = append(found, p)
		}
	}
	// Mounts are listed in order of creation; of two on one mount point, unmount the later one first.
	slices.Reverse(found)
	slices.SortStableFunc(found, func(a, b string) int { return strings.Count(b, "/") - strings.Count(a, "/") })
	return found
}

// unescape decodes the octal escapes that the kernel uses for blanks in paths.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// UnmountBelow unmounts everything below a folder.
func UnmountBelow(dir string) error {
	mounts, err := MountsBelow(dir)
	if err != nil {
		return err
	}
	var failed []error
	for _, m := range mounts {
		err := syscall.Unmount(m, syscall.MNT_DETACH)
		// A shared mount may already be gone with its peer.
		if err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOENT) {
			failed = append(failed, fmt.Errorf("unmounting %s: %w", m, err))
		}
	}
	return errors.Join(failed...)
}
