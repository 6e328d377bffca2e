// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Lock takes the lock file at path. If another process holds it, Lock calls waiting once and waits. The kernel
// releases the lock when the process ends, so a crash leaves none behind.
func Lock(path string, waiting func()) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // a path of our own
	if err != nil {
		return nil, fmt.Errorf("opening the lock file: %w", err)
	}
	fd := int(f.Fd())
	err = syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		waiting()
		err = flockThroughSignals(fd)
	}
	if err != nil {
		_ = f.Close() // the lock's error matters more
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	// Closing the file releases the lock. The file stays, because removing it would let a third process lock another one.
	return func() { _ = f.Close() }, nil
}

func flockThroughSignals(fd int) error {
	for {
		err := syscall.Flock(fd, syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
