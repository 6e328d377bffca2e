// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestKeyDependsOnEveryInputAndOnWhereTheyEnd(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for name, key := range map[string]string{
		"nothing": Key(), "empty": Key(""), "ab c": Key("ab", "c"), "a bc": Key("a", "bc"), "abc": Key("abc"),
	} {
		if other, ok := seen[key]; ok {
			t.Errorf("%q and %q have the same key", name, other)
		}
		seen[key] = name
	}
	if first, second := Key("a", "b"), Key("a", "b"); first != second {
		t.Error("equal inputs have different keys")
	}
}

func TestPublishDirLeavesNothingOfAFailedBuild(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	path := filepath.Join(root, "out")
	fail := errors.New("interrupted")
	err := PublishDir(path, func(dir string) error {
		if err := os.WriteFile(filepath.Join(dir, "half"), nil, 0o600); err != nil {
			return err
		}
		return fail
	})
	if !errors.Is(err, fail) {
		t.Fatalf("got %v", err)
	}
	left, err := os.ReadDir(root)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestPublishDirTwiceKeepsTheFirst(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "out")
	for _, content := range []string{"first", "second"} {
		err := PublishDir(path, func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "file"), []byte(content), 0o600)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(filepath.Join(path, "file"))
	if err != nil || string(got) != "first" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestLockWaitsForItsHolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(path, func() { t.Error("waited without a holder") })
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan struct{})
	got := make(chan error, 1)
	go func() {
		second, err := Lock(path, func() { close(waited) })
		if err == nil {
			second()
		}
		got <- err
	}()
	<-waited
	select {
	case <-got:
		t.Fatal("the lock has two holders")
	case <-time.After(50 * time.Millisecond):
	}
	unlock()
	if err := <-got; err != nil {
		t.Error(err)
	}
}
