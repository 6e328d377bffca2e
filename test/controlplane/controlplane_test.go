package controlplane_test

import (
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
)

// TestStart shows what a test can rely on: our kinds from the start, those of Serving from when they are
// installed, and an API server that refuses what RBAC does not allow.
func TestStart(t *testing.T) {
	cp := controlplane.Start(t)

	for _, kind := range []string{"CDEventSource", "CDEventSubject"} {
		if !serves(t, cp.Config(), "knative-cdevents.dev/v1alpha1", kind) {
			t.Errorf("%s is not served", kind)
		}
	}
	if serves(t, cp.Config(), "serving.knative.dev/v1", "Service") {
		t.Error("Serving is there before it was installed")
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
		t.Errorf("somebody without rights listed Secrets: got error %v, want Forbidden", err)
	}

	if err := cp.RemoveServing(t.Context()); err != nil {
		t.Fatal(err)
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
