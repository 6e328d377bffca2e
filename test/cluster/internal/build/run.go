// SPDX-License-Identifier: Apache-2.0

package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// perBuild is the memory that linking a Kubernetes binary can take.
const perBuild = 5 << 30

// parallel returns the number of concurrent builds. One "go build" uses all cores to compile; a second one uses the
// idle time while the first links; more would only compete.
func parallel() int {
	n := min(runtime.NumCPU(), 2)
	if mem := memoryAvailable("/proc/meminfo"); mem > 0 {
		n = min(n, int(mem/perBuild)) //nolint:gosec // a few gigabytes divided by some
	}
	return max(n, 1)
}

func memoryAvailable(path string) uint64 {
	data, err := os.ReadFile(path) //nolint:gosec // a fixed path, or a test's
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kb, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err == nil {
				return kb << 10
			}
		}
	}
	return 0
}

// goEnv is the environment of every Go build. It disables cgo, and any workspace file, which could change the pinned
// versions.
func goEnv() []string {
	return append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
}

// run is a command with its output in a log file; an error contains the end of it. If out is set, it gets standard
// output instead; saw gets each line of progress.
type run struct {
	dir, log string
	env      []string
	in       io.Reader
	out      io.Writer
	saw      func(line string)
}

func (r run) do(ctx context.Context, name string, args ...string) error {
	dir, log, env := r.dir, r.log, r.env
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) //nolint:gosec // a path of our own
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	var tail bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // the callers' fixed commands
	cmd.Dir = dir
	cmd.Env = env
	cmd.Stdin = r.in
	cmd.Stdout = out
	if r.out != nil {
		cmd.Stdout = r.out
	}
	cmd.Stderr = io.MultiWriter(out, &tail, lines(r.saw))
	endWithGroup(cmd)
	err = cmd.Run()
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("%s is not in PATH: %w", name, err)
	}
	return fmt.Errorf("%s %s: %w\n%s(whole log: %s)%s", name, args[0], err, lastLines(tail.String(), 15), log, advice(tail.String()))
}

// endWithGroup sends an interrupt to the compilers too, not only to the build command.
func endWithGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second
}

// lines calls the function with the last line of each write.
type lines func(string)

func (l lines) Write(p []byte) (int, error) {
	if text := strings.TrimSpace(string(p)); l != nil && text != "" {
		l(text[strings.LastIndexByte(text, '\n')+1:])
	}
	return len(p), nil
}

// advice suggests how to fix failures that are not caused by the code.
func advice(output string) string {
	for _, a := range []struct {
		text  string
		signs []string
	}{
		{"the disk is full: make room, or set XDG_CACHE_HOME and GOCACHE to another one", []string{"no space left on device"}},
		{"memory is short: end something else, what is compiled is kept", []string{"signal: killed", "cannot allocate memory"}},
		{"modules could not be had: is the Go module proxy (see \"go env GOPROXY\") reachable?", []string{
			"GOPROXY=off", "dial tcp", "no such host", "i/o timeout", "TLS handshake timeout", "404 Not Found", "410 Gone",
		}},
	} {
		for _, sign := range a.signs {
			if strings.Contains(output, sign) {
				return "\n" + a.text
			}
		}
	}
	return ""
}

func lastLines(text string, n int) string {
	lines := strings.SplitAfter(text, "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "")
}
