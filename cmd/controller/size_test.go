// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// If html/template is linked, which calls methods by name, the linker keeps every exported method of every type. The
// controller is half as large again then, and most of that is in memory.
func TestTheLinkerCanLeaveMethodsOut(t *testing.T) {
	t.Parallel()
	const tag = "grpcnotrace"
	settings, err := os.ReadFile(filepath.Join("..", "..", ".ko.yaml"))
	if err != nil || !strings.Contains(string(settings), "-tags="+tag) {
		t.Errorf("images are built without the tag %s: %v", tag, err)
	}
	list, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags", tag, ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	// The last one gives SYSTEM_NAMESPACE a value for tests, if it has none.
	for _, pkg := range []string{"html/template", "golang.org/x/net/trace", "knative.dev/pkg/system/testing"} {
		if slices.Contains(strings.Fields(string(list)), pkg) {
			t.Errorf("the controller imports %s", pkg)
		}
	}
}
