// SPDX-License-Identifier: Apache-2.0

// Package proc starts daemons that outlive the program, and later finds and ends them.
//
// Invariant: it never signals a process that the cluster did not start. A process is the cluster's only if its boot, id
// and start time match a record, or if its environment contains the mark that only the cluster's daemons and their
// children inherit. Signals go through a pidfd that is opened before that check.
package proc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Mark is the environment variable that identifies the cluster's daemons and all their children.
const Mark = "KNATIVE_CDEVENTS_CLUSTER_STATE"

// bootID changes with every boot, so a record from before a power cut never matches.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// stat is a process's state in /proc.
type stat struct {
	command string
	state   byte
	start   uint64
}

// parseStat parses /proc/PID/stat. The command itself may contain spaces and parentheses.
func parseStat(line string) (stat, error) {
	open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if open < 0 || end < open {
		return stat{}, fmt.Errorf("no command in %q", line)
	}
	// The fields after the command start with the third, the state; the start time is the 22nd.
	fields := strings.Fields(line[end+1:])
	const startTime = 22 - 3
	if len(fields) <= startTime || len(fields[0]) != 1 {
		return stat{}, fmt.Errorf("too few fields in %q", line)
	}
	start, err := strconv.ParseUint(fields[startTime], 10, 64)
	if err != nil {
		return stat{}, fmt.Errorf("start time in %q: %w", line, err)
	}
	return stat{command: line[open+1 : end], state: fields[0][0], start: start}, nil
}

// look returns the state of a living process. A zombie counts as gone, unless other threads are still ending: until the
// last one has ended, the process holds its ports and mounts.
func look(pid int) (stat, bool) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	b, err := os.ReadFile(filepath.Join(dir, "stat")) //nolint:gosec // a process id
	if err != nil {
		return stat{}, false
	}
	s, err := parseStat(string(b))
	if err != nil {
		return stat{}, false
	}
	if s.state == 'Z' || s.state == 'X' {
		threads, err := os.ReadDir(filepath.Join(dir, "task"))
		return s, err == nil && len(threads) > 1
	}
	return s, true
}

// marked reports whether an environment block contains the mark with the given value.
func marked(environ []byte, value string) bool {
	want := []byte(Mark + "=" + value)
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if bytes.Equal(entry, want) {
			return true
		}
	}
	return false
}

// Process is a living process of the cluster.
type Process struct {
	PID     int
	Command string
	start   uint64
}

// Marked returns all living processes with the mark of the cluster in dir.
func Marked(dir string) []Process {
	return find(func(pid int) bool {
		env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
		return err == nil && marked(env, dir)
	})
}

// ByID returns the processes with the given ids that are alive.
func ByID(pids []int) []Process {
	set := map[int]bool{}
	for _, p := range pids {
		set[p] = true
	}
	return find(func(pid int) bool { return set[pid] })
}

func find(want func(pid int) bool) []Process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		// Read the start time before and after the check, in case the id is reused in between.
		before, ok := look(pid)
		if !ok || !want(pid) {
			continue
		}
		if after, ok := look(pid); ok && after.start == before.start {
			found = append(found, Process{PID: pid, Command: after.command, start: after.start})
		}
	}
	return found
}
