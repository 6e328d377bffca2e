// SPDX-License-Identifier: Apache-2.0

// Command generate writes the dashboards for Grafana, as JSON and as the ConfigMap that Grafana's
// sidecar reads, and the rules for Prometheus, as the resource that its operator reads.
//
// Its invariant: the output depends only on package dashboards, so the same code always writes the
// same bytes.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/knative-cdevents/knative-cdevents/dashboards"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// run writes into the repository with this root.
func run(root string) error {
	files, err := generate()
	if err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(root, name), content, 0o644); err != nil { //nolint:gosec // world-readable
			return fmt.Errorf("writing a dashboard: run this in the root of the repository: %w", err)
		}
	}
	return nil
}

// generate returns all files, by name.
func generate() (map[string][]byte, error) {
	files := map[string][]byte{}
	boards := map[string]string{}
	for _, d := range dashboards.All() {
		content, err := render(d)
		if err != nil {
			return nil, fmt.Errorf("rendering the dashboard %q: %w", d.Title, err)
		}
		files["dashboards/"+d.File] = content
		// Without white space, so that "kubectl apply" can keep it in an annotation.
		var small bytes.Buffer
		if err := json.Compact(&small, content); err != nil {
			return nil, fmt.Errorf("compacting the dashboard %q: %w", d.Title, err)
		}
		boards[d.File] = small.String()
	}
	manifest, err := configMap(boards)
	if err != nil {
		return nil, err
	}
	files["config/optional/monitoring/dashboards.yaml"] = manifest
	rules, err := prometheusRule(dashboards.Rules)
	if err != nil {
		return nil, err
	}
	files["config/optional/monitoring/rules.yaml"] = rules
	return files, nil
}
