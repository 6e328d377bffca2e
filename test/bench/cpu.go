// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"time"

	"github.com/prometheus/procfs"
)

// cpu is the processor time of every participant, which shows the bottleneck, and of the rest of the machine, which
// shows how reliable the numbers are.
type cpu struct {
	Program, APIServer, Etcd, Bench, Others time.Duration
}

// cpuNow reads the current values.
func (s *stage) cpuNow(programs ...int) (cpu, error) {
	var c cpu
	busy, err := busyTime()
	if err != nil {
		return c, err
	}
	for _, r := range []struct {
		to  *time.Duration
		pid int
	}{{&c.APIServer, s.apiServer}, {&c.Etcd, s.etcd}, {&c.Bench, os.Getpid()}} {
		if *r.to, err = cpuOf(r.pid); err != nil {
			return c, err
		}
		busy -= *r.to
	}
	for _, pid := range programs {
		used, err := cpuOf(pid)
		if err != nil {
			return c, err
		}
		c.Program += used
		busy -= used
	}
	c.Others = busy
	return c, nil
}

// busyTime is the processors' total busy time since boot.
func busyTime() (time.Duration, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, fmt.Errorf("opening /proc: %w", err)
	}
	stat, err := fs.Stat()
	if err != nil {
		return 0, fmt.Errorf("reading how busy the machine is: %w", err)
	}
	t := stat.CPUTotal
	return time.Duration((t.User + t.Nice + t.System + t.IRQ + t.SoftIRQ + t.Steal) * float64(time.Second)), nil
}

func (c cpu) minus(o cpu) cpu {
	return cpu{c.Program - o.Program, c.APIServer - o.APIServer, c.Etcd - o.Etcd, c.Bench - o.Bench, c.Others - o.Others}
}
