// SPDX-License-Identifier: Apache-2.0

package main

import (
	goversion "go/version"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What a workflow runs, everybody can run on their machine: a target of the Makefile, or .ci/run, which calls them.
func TestWorkflowsRunTargets(t *testing.T) {
	t.Parallel()
	makefile := string(content(t, "../../Makefile"))
	for path, text := range workflows(t) {
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
				if command != ".ci/run" && (!isMake || !strings.Contains(makefile, "\n"+target+":")) {
					t.Errorf("%s runs %q, which is no target of the Makefile", path, command)
				}
			}
		}
	}
}

// setup-go takes the Go of the toolchain line, and lets it download no newer one. So this Go must be new enough for every
// module, and whatever runs in a container has the same.
func TestOneGoMakesEverything(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	stated := regexp.MustCompile(`(?m)^toolchain (go\S+)$`).FindStringSubmatch(string(content(t, filepath.Join(root, "go.mod"))))
	if stated == nil {
		t.Fatal("go.mod has no toolchain line")
	}
	required := regexp.MustCompile(`(?m)^(?:go (\S+)|toolchain go(\S+))$`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "go.mod" {
			return err
		}
		for _, m := range required.FindAllStringSubmatch(string(content(t, path)), -1) {
			if least := "go" + m[1] + m[2]; goversion.Compare(least, stated[1]) > 0 {
				t.Errorf("%s requires %s, and CI has only %s, from the toolchain line of go.mod", path, least, stated[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range workflows(t) {
		for _, image := range regexp.MustCompile(`golang:\S+`).FindAllString(text, -1) {
			if want := "golang:" + strings.TrimPrefix(stated[1], "go") + "-bookworm"; image != want {
				t.Errorf("%s runs in %s, want %s", path, image, want)
			}
		}
		if strings.Count(text, "actions/setup-go@") != strings.Count(text, "go-version-file: go.mod\n") {
			t.Errorf("%s does not take every Go from go.mod", path)
		}
	}
}

// workflows returns the text of each workflow, by its path.
func workflows(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../../.github/workflows/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("there are no workflows: %v", err)
	}
	out := map[string]string{}
	for _, path := range paths {
		out[path] = string(content(t, path))
	}
	return out
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
