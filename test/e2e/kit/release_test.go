// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Commands of documents use the release under test in place of a published one. Here, the programs only print their
// arguments.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	k := &Kit{root: filepath.Join("..", "..", "..")}
	r := &Release{
		Folder: "/folder", Version: "v9.8.7", Registry: "registry:5000/x", URL: "http://release.test", tools: t.TempDir(),
	}
	for _, program := range []string{"kubectl", "helm", "curl", "xargs"} {
		path := filepath.Join(r.tools, program)
		script := "#!/bin/sh\n[ " + program + " != xargs ] || cat\necho " + program + " \"$@\" crd.knative-cdevents.dev\n"
		if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ document, name, want string }{
		{"README.md", "install", "kubectl apply -f http://release.test/release.yaml"},
		{"README.md", "uninstall", "kubectl delete --ignore-not-found -f http://release.test/sidecar.yaml"},
		{"docs/install.md", "ready", "kubectl cdevents check"},
		{"docs/install.md", "upgrade", "kubectl rollout status deployment/controller"},
		{"docs/install.md", "helm-push", "helm push /folder/knative-cdevents-9.8.7.tgz oci://registry:5000/x/charts"},
		{"docs/install.md", "helm-install", "oci://registry:5000/x/charts/knative-cdevents --version 9.8.7"},
		{"docs/install.md", "helm-upgrade", "oci://registry:5000/x/charts/knative-cdevents --version 9.8.7"},
		{"docs/install.md", "helm-uninstall", "helm uninstall knative-cdevents"},
		{"docs/install.md", "helm-remove", "xargs kubectl delete"},
		{"docs/install.md", "kustomize-install", "curl -sSfLO http://release.test/release.yaml"},
		{"docs/install.md", "kustomize-uninstall", "kubectl delete --ignore-not-found -k ."},
	} {
		commands, err := k.Documented(c.document, c.name)
		if err != nil {
			t.Error(err)
			continue
		}
		got, err := r.Run(t.Context(), t.TempDir(), commands)
		if err != nil {
			t.Error(err)
		}
		if !strings.Contains(got, c.want) || strings.Contains(got, "github.com") || strings.Contains(got, "REGISTRY") ||
			strings.Contains(got, "ghcr.io") {
			t.Errorf("%s, %s ran\n%s\nwant %q", c.document, c.name, got, c.want)
		}
	}
	if _, err := k.Documented("README.md", "nothing"); err == nil {
		t.Error("there are commands that no document has")
	}
}
