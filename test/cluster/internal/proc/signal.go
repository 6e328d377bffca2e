// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// Alive reports whether this same process is still running.
func (p Process) Alive() bool {
	s, ok := look(p.PID)
	return ok && s.start == p.start
}

// Signal sends sig to this process; one that has ended needs none. FindProcess opens a pidfd. If the start time still
// matches after that, the descriptor refers to our process even if its id is reused.
func (p Process) Signal(sig syscall.Signal) error {
	handle, err := os.FindProcess(p.PID)
	if err != nil {
		return nil // no such process: it has already ended
	}
	defer func() { _ = handle.Release() }() // only closes the descriptor
	if !p.Alive() {
		return nil
	}
	if err := handle.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// End sends SIGTERM, waits for grace, then sends SIGKILL. It returns the processes that are still alive.
func End(grace time.Duration, ps ...Process) []Process {
	for _, p := range ps {
		_ = p.Signal(syscall.SIGTERM) // a process that cannot be signalled is found alive below
	}
	left := await(grace, ps)
	for _, p := range left {
		_ = p.Signal(syscall.SIGKILL)
	}
	return await(5*time.Second, left)
}

// Kill sends SIGKILL immediately.
func Kill(ps ...Process) []Process {
	for _, p := range ps {
		_ = p.Signal(syscall.SIGKILL) // survivors are returned
	}
	return await(5*time.Second, ps)
}

func await(limit time.Duration, ps []Process) []Process {
	for deadline := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		var left []Process
		for _, p := range ps {
			if p.Alive() {
				left = append(left, p)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
	}
}
