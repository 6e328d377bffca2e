// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// production is the environment in the examples of docs/event-examples.md.
func production(spec *v1alpha1.CDEventSourceSpec) {
	spec.Environment = &v1alpha1.Environment{ID: "production", Source: "https://platform.example.com/environments"}
}

// capture writes an event to the folder that E2E_CAPTURE names, as an example of its type for docs/event-examples.md. It
// replaces names that are specific to this cluster.
func capture(t *testing.T, e event) {
	t.Helper()
	dir := os.Getenv("E2E_CAPTURE")
	if dir == "" {
		return
	}
	namespace, as := e.cd.CustomData.Knative.Namespace, "shop"
	if environment := e.cd.CustomData.Environment; environment != nil {
		namespace, as = environment.Namespace, "fleet"
	}
	registry, _, _ := strings.Cut(suite.app, "/")
	body := strings.NewReplacer(
		registry+"/apps/app", "registry.example.com/shop/cart", "/v2/apps/app", "/v2/shop/cart", registry, "registry.example.com", e.cd.Context.Source, "https://eu-1.example.com/knative-cdevents",
		namespace, as, "oci/app", "oci/cart",
	).Replace(string(e.Body))
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, []byte(body), "", "  "); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, e.cd.Context.Type+".json"), append(pretty.Bytes(), '\n'), 0o600); err != nil { //nolint:gosec // the developer names the folder
		t.Fatal(err)
	}
}
