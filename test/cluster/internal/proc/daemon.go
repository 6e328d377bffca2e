// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/store"
)

// Daemon is a program of the cluster that runs directly on the machine.
type Daemon struct {
	Name string
	Path string
	Args []string
	Env  []string
	// Depends is what requires a restart when it changes and is not on the command line:
	// the content of configuration files.
	Depends []string
	// Ready returns nil once the daemon answers. Patience bounds the time until then.
	Ready    func(context.Context) error
	Patience time.Duration
}

// Record is the stored state of a started daemon.
type Record struct {
	PID   int       `json:"pid"`
	Start uint64    `json:"start"`
	Boot  string    `json:"boot"`
	Spec  string    `json:"spec"`
	Since time.Time `json:"since"`
}

// Set is the daemons of one cluster: records are in dir/run, output in dir/log.
type Set struct {
	dir  string
	path string
}

// NewSet returns the daemons with their state in dir; path is their PATH.
func NewSet(dir, path string) (*Set, error) {
	for _, d := range []string{"run", "log"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o750); err != nil {
			return nil, fmt.Errorf("creating the state folder: %w", err)
		}
	}
	return &Set{dir: dir, path: path}, nil
}

// Log returns the path of a daemon's output.
func (s *Set) Log(name string) string { return filepath.Join(s.dir, "log", name+".log") }

func (s *Set) recordFile(name string) string { return filepath.Join(s.dir, "run", name+".json") }

func (d Daemon) spec() string {
	return store.Key(slices.Concat([]string{d.Path}, d.Args, d.Env, d.Depends)...)
}

// Lookup returns a daemon's process, if it is alive, and its record.
func (s *Set) Lookup(name string) (Process, Record, bool) {
	data, err := os.ReadFile(s.recordFile(name))
	if err != nil {
		return Process{}, Record{}, false
	}
	var r Record
	if json.Unmarshal(data, &r) != nil || r.Boot != bootID() {
		return Process{}, r, false
	}
	st, ok := look(r.PID)
	if !ok || st.start != r.Start {
		return Process{}, r, false
	}
	return Process{PID: r.PID, Command: st.command, start: st.start}, r, true
}

// Ensure starts the daemon unless it runs as described, and waits until it is ready. It reports whether it
// started it.
func (s *Set) Ensure(ctx context.Context, d Daemon) (started bool, err error) {
	p, rec, alive := s.Lookup(d.Name)
	if alive && rec.Spec == d.spec() {
		// The daemon may be dying: then it never becomes ready, and is started again.
		if err := s.await(ctx, d, p, nil); err == nil || p.Alive() {
			return false, err
		}
		alive = false
	}
	if alive {
		if left := End(15*time.Second, p); len(left) > 0 {
			return false, fmt.Errorf("%s (process %d) does not end, even after SIGKILL", d.Name, p.PID)
		}
	}
	p, exited, err := s.start(d)
	if err != nil {
		return false, err
	}
	return true, s.await(ctx, d, p, exited)
}

func (s *Set) start(d Daemon) (Process, <-chan error, error) {
	out, err := os.OpenFile(s.Log(d.Name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return Process{}, nil, fmt.Errorf("opening the log of %s: %w", d.Name, err)
	}
	defer func() { _ = out.Close() }() // the daemon has its own descriptor
	// Not bound to a context: the daemon outlives this program.
	cmd := exec.Command(d.Path, d.Args...) //nolint:gosec,noctx // our own binaries
	cmd.Dir = s.dir
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append([]string{Mark + "=" + s.dir, "PATH=" + s.path, "HOME=" + s.dir, "TMPDIR=" + filepath.Join(s.dir, "run")}, d.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return Process{}, nil, fmt.Errorf("starting %s: %w", d.Name, err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	st, ok := look(cmd.Process.Pid)
	if !ok {
		return Process{}, nil, fmt.Errorf("%s ended immediately\n%s", d.Name, s.Tail(d.Name, 12))
	}
	rec := Record{PID: cmd.Process.Pid, Start: st.start, Boot: bootID(), Spec: d.spec(), Since: time.Now()}
	data, err := json.Marshal(rec)
	if err == nil {
		err = store.PublishFile(s.recordFile(d.Name), data, 0o600)
	}
	if err != nil {
		return Process{}, nil, fmt.Errorf("recording %s: %w", d.Name, err)
	}
	return Process{PID: rec.PID, Command: st.command, start: st.start}, exited, nil
}

func (s *Set) await(ctx context.Context, d Daemon, p Process, exited <-chan error) error {
	if d.Ready == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, d.Patience)
	defer cancel()
	for {
		err := d.Ready(ctx)
		if err == nil {
			return nil
		}
		if exited == nil && !p.Alive() {
			return fmt.Errorf("%s (process %d) has ended", d.Name, p.PID)
		}
		select {
		case cause := <-exited:
			return fmt.Errorf("%s ended while it was starting (%w); the end of %s:\n%s", d.Name, orClean(cause), s.Log(d.Name), s.Tail(d.Name, 12))
		case <-ctx.Done():
			return fmt.Errorf("%s (process %d) is not ready after %s: %w; the end of %s:\n%s", d.Name, p.PID, d.Patience, err, s.Log(d.Name), s.Tail(d.Name, 12))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func orClean(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// Stop ends the named daemons at the same time, and deletes the records of those that ended.
func (s *Set) Stop(grace time.Duration, names ...string) error {
	var ps []Process
	for _, n := range names {
		if p, _, ok := s.Lookup(n); ok {
			ps = append(ps, p)
		}
	}
	if left := End(grace, ps...); len(left) > 0 {
		return fmt.Errorf("process %d (%s) does not end, even after SIGKILL", left[0].PID, left[0].Command)
	}
	for _, n := range names {
		if err := os.Remove(s.recordFile(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("deleting the record of %s: %w", n, err)
		}
	}
	return nil
}

// Tail returns the last lines of a daemon's output.
func (s *Set) Tail(name string, lines int) string {
	const most = 16 << 10
	f, err := os.Open(s.Log(name))
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // the file is only read
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	buf := make([]byte, min(info.Size(), most))
	if _, err := f.ReadAt(buf, info.Size()-int64(len(buf))); err != nil {
		return ""
	}
	all := strings.Split(strings.TrimRight(string(buf), "\n"), "\n")
	return "  " + strings.Join(all[max(0, len(all)-lines):], "\n  ")
}
