// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// The results of the Task.
const (
	baseline = "BASELINE"
	traffic  = "TRAFFIC"
	message  = "MESSAGE"
)

// mostResult is how many bytes of JSON a result may have. Tekton keeps 4 KiB of all results together; if there are
// more, it fails the TaskRun and keeps none. Only a message can be longer than this.
const mostResult = 2 << 10

// shown returns a text of ours, which may quote conditions that others wrote, as it may be shown.
func shown(s string) string { return sanitize.Visible(sanitize.WithoutCredentials(s)) }

// results writes the files that Tekton reads; RESULT_… names each file.
type results struct{ getenv func(string) string }

func (r results) write(name, value string) error {
	path := r.getenv("RESULT_" + name)
	if path == "" {
		return nil // outside of Tekton
	}
	for value = shown(value); lifecycle.JSONSize(value) > mostResult; {
		value = sanitize.Truncate(value, len(value)*3/4)
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
