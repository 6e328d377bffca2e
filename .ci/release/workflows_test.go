// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What a workflow runs, everybody can run on their machine: a target of the Makefile, or .ci/run, which calls them.
func TestWorkflowsRunTargets(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	workflows, err := filepath.Glob("../../.github/workflows/*.yaml")
	if err != nil || len(workflows) == 0 {
		t.Fatalf("there are no workflows: %v", err)
	}
	for _, path := range workflows {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := string(raw)
		commands := regexp.MustCompile(`(?m)^\s+-? ?run: *(.*)$`).FindAllStringSubmatch(text, -1)
		if len(commands) == 0 {
			t.Errorf("%s runs nothing", path)
		}
		for _, c := range commands {
			targets := []string{c[1]}
			if matrix := regexp.MustCompile(`(?m)^ +target: \[(.*)\]$`).FindStringSubmatch(text); strings.Contains(c[1], "matrix.target") && matrix != nil {
				targets = nil
				for _, target := range strings.Split(matrix[1], ", ") {
					targets = append(targets, "make "+target)
				}
			}
			for _, command := range targets {
				target, isMake := strings.CutPrefix(command, "make ")
				if command != ".ci/run" && (!isMake || !strings.Contains(string(makefile), "\n"+target+":")) {
					t.Errorf("%s runs %q, which is no target of the Makefile", path, command)
				}
			}
		}
	}
}
