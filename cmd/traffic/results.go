// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"knative.dev/pkg/apis"
)

// The results of the Task.
const (
	baseline = "BASELINE"
	traffic  = "TRAFFIC"
	message  = "MESSAGE"
)

// results writes the files that Tekton reads; RESULT_… names each file.
type results struct{ getenv func(string) string }

func (r results) write(name, value string) error {
	path := r.getenv("RESULT_" + name)
	if path == "" {
		return nil // outside of Tekton
	}
	if err := os.WriteFile(path, []byte(value), 0o644); err != nil { //nolint:gosec // Tekton reads it as another user
		return fmt.Errorf("writing result %s: %w", name, err)
	}
	return nil
}

func because(c *apis.Condition) string {
	if c == nil {
		return "it has no condition yet"
	}
	return fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)
}
