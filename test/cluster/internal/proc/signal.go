package proc

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// Alive tells whether this very process still runs.
func (p Process) Alive() bool {
	s, ok := look(p.PID)
	return ok && s.start == p.start
}

// Signal sends sig to this very process; one that has ended needs none. FindProcess takes a pidfd; when the start time still matches
// after that, the descriptor stands for our process even if its id is reused a moment later.
func (p Process) Signal(sig syscall.Signal) error {
	handle, err := os.FindProcess(p.PID)
	if err != nil {
		return nil // no such process: it ended by itself, which is what is wanted
	}
	defer func() { _ = handle.Release() }() // only gives the descriptor back
	if !p.Alive() {
		return nil
	}
	if err := handle.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// End asks the processes to end, waits for grace, then insists. It returns those that still live.
func End(grace time.Duration, ps ...Process) []Process {
	for _, p := range ps {
		_ = p.Signal(syscall.SIGTERM) // whoever cannot be asked is found alive below
	}
	left := await(grace, ps)
	for _, p := range left {
		_ = p.Signal(syscall.SIGKILL)
	}
	return await(5*time.Second, left)
}

// Kill insists at once.
func Kill(ps ...Process) []Process {
	for _, p := range ps {
		_ = p.Signal(syscall.SIGKILL) // whoever survives is returned
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
