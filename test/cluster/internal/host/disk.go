// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Free returns the free space for this user on the disk of a path, which need not exist.
func Free(path string) (uint64, error) {
	for p := path; ; p = filepath.Dir(p) {
		if _, err := os.Stat(p); err != nil && p != "/" {
			continue
		}
		var fs syscall.Statfs_t
		if err := syscall.Statfs(p, &fs); err != nil {
			return 0, fmt.Errorf("asking for the free space at %s: %w", p, err)
		}
		return fs.Bavail * uint64(fs.Bsize), nil //nolint:gosec // a block size is never negative
	}
}

// NeedDisk returns an error if less than gib GiB are free at path.
func NeedDisk(path string, gib uint64) error {
	free, err := Free(path)
	if err != nil {
		return err
	}
	if free < gib<<30 {
		return fmt.Errorf("too little disk for %s: %d GiB free, %d GiB needed; make room or set XDG_CACHE_HOME to another disk", path, free>>30, gib)
	}
	return nil
}
