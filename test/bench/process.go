// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// stopFor bounds the time until a program ends after SIGTERM.
const stopFor = 20 * time.Second

// process is a running contestant.
type process struct {
	name string
	cmd  *exec.Cmd
	end  context.CancelFunc
	log  string
	// ended is closed once the program has ended; err is its result.
	ended chan struct{}
	err   error
}

// program is a program to start, with its own log file.
type program struct {
	name, path, log string
	env             []string
}

// launch starts the program, which ends with the context at the latest.
func (g program) launch(ctx context.Context, args ...string) (*process, error) {
	ctx, end := context.WithCancel(ctx)
	p := &process{name: g.name, end: end, log: g.log, ended: make(chan struct{})}
	// A program that is restarted in the same turn appends to the same file.
	out, err := os.OpenFile(filepath.Clean(g.log), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		end()
		return nil, fmt.Errorf("creating a log for %s: %w", g.name, err)
	}
	p.cmd = exec.CommandContext(ctx, g.path, args...)
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, g.env...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = stopFor
	err = p.cmd.Start()
	if err = errors.Join(err, out.Close()); err != nil {
		end()
		return nil, fmt.Errorf("starting %s (\"make bench\" builds it): %w", g.name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// stop terminates the program, and kills it if it does not end.
func (p *process) stop() {
	p.end()
	<-p.ended
}

// kill ends the program like a power failure.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("killing %s: %w", p.name, err)
	}
	<-p.ended
	return nil
}

// alive returns an error if the program has ended.
func (p *process) alive() error {
	select {
	case <-p.ended:
		return fmt.Errorf("%s exited unexpectedly (%w); its log is %s", p.name, p.err, p.log)
	default:
		return nil
	}
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// memory is the memory of a process, in bytes.
type memory struct {
	// Resident is the current value, Peak the maximum.
	Resident, Peak uint64
}

func memoryOf(pid int) (memory, error) {
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return memory{}, fmt.Errorf("opening process %d: %w", pid, err)
	}
	status, err := proc.NewStatus()
	if err != nil {
		return memory{}, fmt.Errorf("reading the memory of process %d: %w", pid, err)
	}
	return memory{Resident: status.VmRSS, Peak: status.VmHWM}, nil
}

// cpuOf returns the user and system time of a process.
func cpuOf(pid int) (time.Duration, error) {
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return 0, fmt.Errorf("opening process %d: %w", pid, err)
	}
	stat, err := proc.Stat()
	if err != nil {
		return 0, fmt.Errorf("reading the processor time of process %d: %w", pid, err)
	}
	return time.Duration(stat.CPUTime() * float64(time.Second)), nil
}

// childNamed finds a child process by name.
func childNamed(name string) (int, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return 0, fmt.Errorf("listing processes: %w", err)
	}
	for _, p := range all {
		// A process that has ended in the meantime is not the one.
		if stat, err := p.Stat(); err == nil && stat.PPID == os.Getpid() && stat.Comm == name {
			return p.PID, nil
		}
	}
	return 0, fmt.Errorf("this program has no child process %s", name)
}
