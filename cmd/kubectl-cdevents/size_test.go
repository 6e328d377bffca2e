// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// These packages make the plugin much larger. The first register the types of all of Kubernetes, which would be a
// quarter of it. The last two call methods by name: the linker then keeps every exported method of every type.
func TestThePluginStaysSmall(t *testing.T) {
	t.Parallel()
	list, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range []string{
		"k8s.io/client-go/kubernetes/scheme", "k8s.io/client-go/discovery", "k8s.io/cli-runtime/pkg/genericclioptions",
		"knative.dev/pkg/injection", "html/template", "golang.org/x/net/trace",
	} {
		if slices.Contains(strings.Fields(string(list)), pkg) {
			t.Errorf("the plugin imports %s; to see how: go mod why %s", pkg, pkg)
		}
	}
}
