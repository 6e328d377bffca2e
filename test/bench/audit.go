// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// auditPolicy makes the API server log the contestants' writes, and nothing else: no reads, and not the bench's own
// writes.
func auditPolicy() string {
	var users []string
	for _, c := range append(contestants, serverless) {
		users = append(users, c.Name)
	}
	return fmt.Sprintf(`apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: [%s]
  verbs: [create, update, patch, delete, deletecollection]
- level: None
`, strings.Join(users, ", "))
}

// audit is the API server's log of writes.
type audit struct{ path string }

// size returns the current size of the log: the offset of the next turn's writes.
func (a audit) size() (int64, error) {
	info, err := os.Stat(a.path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil // no writes yet
	}
	if err != nil {
		return 0, fmt.Errorf("reading the size of the audit log: %w", err)
	}
	return info.Size(), nil
}

// writes counts a user's writes by resource, from an offset on.
func (a audit) writes(from int64, user string) (map[string]int, error) {
	f, err := os.Open(filepath.Clean(a.path))
	if errors.Is(err, os.ErrNotExist) {
		return map[string]int{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening the audit log: %w", err)
	}
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return nil, errors.Join(fmt.Errorf("reading the audit log from %d: %w", from, err), f.Close())
	}
	counts, err := countWrites(f, user)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	return counts, nil
}

// countWrites parses one event per line. A rejected write counts too: it costs as much.
func countWrites(r io.Reader, user string) (map[string]int, error) {
	counts := map[string]int{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var ev struct {
			User      struct{ Username string }
			ObjectRef struct{ Resource, Subresource string }
		}
		if err := json.Unmarshal(lines.Bytes(), &ev); err != nil {
			return nil, fmt.Errorf("line %q is not an audit event: %w", lines.Text(), err)
		}
		if ev.User.Username != user {
			continue
		}
		resource := ev.ObjectRef.Resource
		if ev.ObjectRef.Subresource != "" {
			resource += "/" + ev.ObjectRef.Subresource
		}
		counts[resource]++
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("after %v: %w", counts, err)
	}
	return counts, nil
}
