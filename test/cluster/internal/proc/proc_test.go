// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestParseStatSurvivesOddCommands(t *testing.T) {
	t.Parallel()
	const rest = " S 1 2 3 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 98765 1000 200 18446744073709551615"
	for _, name := range []string{"etcd", "a b", "x) R (y", "()"} {
		got, err := parseStat("42 (" + name + ")" + rest)
		if err != nil {
			t.Fatal(err)
		}
		if got.command != name || got.state != 'S' || got.start != 98765 {
			t.Errorf("%q: got %+v", name, got)
		}
	}
	for _, bad := range []string{"", "42", "42 (a", "42 (a) S 1", strings.Replace("42 (a)"+rest, "98765", "x", 1)} {
		if _, err := parseStat(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestMarkedRequiresTheWholeEntry(t *testing.T) {
	t.Parallel()
	for env, want := range map[string]bool{
		"A=b\x00" + Mark + "=/state\x00C=d\x00": true,
		Mark + "=/state":                        true,
		Mark + "=/state2\x00":                   false,
		"X" + Mark + "=/state\x00":              false,
		"":                                      false,
	} {
		if got := marked([]byte(env), "/state"); got != want {
			t.Errorf("%q: got %v", env, got)
		}
	}
}

func sleeper(ready func(context.Context) error) Daemon {
	return Daemon{Name: "sleeper", Path: "/bin/sleep", Args: []string{"60"}, Ready: ready, Patience: 2 * time.Second}
}

func isReady(context.Context) error { return nil }

func newSet(t *testing.T) *Set {
	t.Helper()
	s, err := NewSet(t.TempDir(), os.Getenv("PATH"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Kill(Marked(s.dir)...) })
	return s
}

func TestEnsureStartsOnceAndAgainWhenTheDescriptionChanges(t *testing.T) {
	t.Parallel()
	s := newSet(t)
	if started, err := s.Ensure(t.Context(), sleeper(isReady)); err != nil || !started {
		t.Fatal(started, err)
	}
	first, _, ok := s.Lookup("sleeper")
	if !ok || !first.Alive() {
		t.Fatal("the daemon is not alive")
	}
	if started, err := s.Ensure(t.Context(), sleeper(isReady)); err != nil || started {
		t.Fatal(started, err)
	}
	changed := sleeper(isReady)
	changed.Depends = []string{"another configuration"}
	if started, err := s.Ensure(t.Context(), changed); err != nil || !started {
		t.Fatal(started, err)
	}
	if first.Alive() {
		t.Error("the old process is still alive")
	}
	if err := s.Stop(time.Second, "sleeper"); err != nil {
		t.Fatal(err)
	}
	if left := Marked(s.dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestEnsureStartsAgainAfterAKill(t *testing.T) {
	t.Parallel()
	s := newSet(t)
	if _, err := s.Ensure(t.Context(), sleeper(isReady)); err != nil {
		t.Fatal(err)
	}
	p, _, _ := s.Lookup("sleeper")
	if left := Kill(p); len(left) > 0 {
		t.Fatal("the process did not end")
	}
	if started, err := s.Ensure(t.Context(), sleeper(isReady)); err != nil || !started {
		t.Error(started, err)
	}
}

func TestEnsureDoesNotWaitForADyingDaemon(t *testing.T) {
	t.Parallel()
	s := newSet(t)
	if _, err := s.Ensure(t.Context(), sleeper(isReady)); err != nil {
		t.Fatal(err)
	}
	old, _, _ := s.Lookup("sleeper")
	d := sleeper(func(context.Context) error {
		p, _, ok := s.Lookup("sleeper")
		switch {
		case !ok:
			return errors.New("refused")
		case p.PID == old.PID:
			return errors.Join(errors.New("dying"), p.Signal(syscall.SIGKILL))
		}
		return nil
	})
	d.Patience = time.Minute
	began := time.Now()
	if started, err := s.Ensure(t.Context(), d); err != nil || !started {
		t.Error(started, err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("waited %s for a dead process", took)
	}
}

func TestEnsureReportsWhyADaemonEnded(t *testing.T) {
	t.Parallel()
	s := newSet(t)
	d := Daemon{
		Name: "broken", Path: "/bin/sh", Args: []string{"-c", "echo the port is taken; sleep 0.2; exit 3"}, Patience: 5 * time.Second,
		Ready: func(context.Context) error { return errors.New("refused") },
	}
	_, err := s.Ensure(t.Context(), d)
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "the port is taken") {
		t.Errorf("got %v", err)
	}
}

// A record whose process id was reused must not lead to another process.
func TestLookupIgnoresAReusedID(t *testing.T) {
	t.Parallel()
	s := newSet(t)
	if _, err := s.Ensure(t.Context(), sleeper(isReady)); err != nil {
		t.Fatal(err)
	}
	p, rec, _ := s.Lookup("sleeper")
	for name, change := range map[string]func(*Record){
		"another start": func(r *Record) { r.Start-- },
		"another boot":  func(r *Record) { r.Boot = "before the power cut" },
	} {
		forged := rec
		change(&forged)
		data, err := json.Marshal(forged)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.recordFile("sleeper"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, ok := s.Lookup("sleeper"); ok {
			t.Errorf("%s: another process was accepted", name)
		}
		if err := s.Stop(time.Second, "sleeper"); err != nil || !p.Alive() {
			t.Errorf("%s: another process was ended (%v)", name, err)
		}
	}
	reused := Process{PID: p.PID, start: p.start + 1}
	if left := Kill(reused); len(left) != 0 || !p.Alive() {
		t.Error("a process with a reused id was killed")
	}
}
