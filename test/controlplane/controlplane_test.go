// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
)

// TestStart shows what a test can rely on: this project's kinds from the start, Serving's once they are installed,
// and RBAC that is enforced.
func TestStart(t *testing.T) {
	cp := controlplane.Start(t)

	for _, kind := range []string{"CDEventSource", "CDEventSubject"} {
		if !serves(t, cp.Config(), "knative-cdevents.dev/v1alpha1", kind) {
			t.Errorf("%s is not served", kind)
		}
	}
	if serves(t, cp.Config(), "serving.knative.dev/v1", "Service") {
		t.Error("Serving's kinds are served before they are installed")
	}
	if err := cp.InstallServing(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"Service", "Route", "Configuration", "Revision"} {
		if !serves(t, cp.Config(), "serving.knative.dev/v1", kind) {
			t.Errorf("%s is not served after InstallServing", kind)
		}
	}

	nobody, err := kubernetes.NewForConfig(cp.As("system:serviceaccount:default:nobody"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = nobody.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("a user without permissions listed Secrets: got error %v, want Forbidden", err)
	}

	if err := cp.RemoveServing(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestPrograms shows how to run a program under test: as a user of its own, whose writes are in the audit log that a
// flag enables.
func TestPrograms(t *testing.T) {
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata, users: [program]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cp, err := controlplane.New(t.Context(), controlplane.APIServerFlag("audit-policy-file", policy), controlplane.APIServerFlag("audit-log-path", log))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	raw, err := cp.KubeConfig("program", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(raw)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), `"username":"program"`) {
		t.Errorf("the audit log holds %q, %v", text, err)
	}
}

func serves(t *testing.T, config *rest.Config, version, kind string) bool {
	t.Helper()
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	list, err := d.ServerResourcesForGroupVersion(version)
	if apierrors.IsNotFound(err) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind })
}
