// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	"github.com/knative-cdevents/knative-cdevents/reconciler/service"
	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
)

// The program ends before it does anything, and its log says which version it found, and which is the least.
func TestOldServingEndsTheProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, kubeconfig := filepath.Join(dir, "controller"), filepath.Join(dir, "kubeconfig")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-tags=grpcnotrace", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("building the program: %v\n%s", err, out)
	}
	cp := controlplane.Start(t)
	if err := cp.InstallServing(t.Context()); err != nil {
		t.Fatal(err)
	}
	definitions, err := metadata.NewForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := definitions.Resource(observer.Definitions).Patch(t.Context(), service.Resource, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"app.kubernetes.io/version":"1.18.2"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	access, err := cp.KubeConfig("controller", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kubeconfig, access, 0o600); err != nil {
		t.Fatal(err)
	}
	program := exec.CommandContext(t.Context(), path, "-kubeconfig="+kubeconfig)
	program.Env = append(os.Environ(), "SYSTEM_NAMESPACE=default", "POD_NAME=controller-0")
	out, err := program.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
		t.Errorf("it ended with %v", err)
	}
	for _, want := range []string{
		"version 1.18.2 of Knative Serving is not supported; it must be at least 1.19.1", service.MinVersionKey + "=v1.18.2",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("it prints, without %q:\n%s", want, out)
		}
	}
}
