// SPDX-License-Identifier: Apache-2.0

// Package config contains no code. Its tests read the manifests in this folder as the API server
// does, and assert what an installation promises: it writes nothing to users' objects, loses no
// field and runs without privileges.
package config

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	eventingv1 "knative.dev/eventing/pkg/apis/eventing/v1"
	sourcesv1 "knative.dev/eventing/pkg/apis/sources/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
)

const namespace = "knative-cdevents"

type manifest struct {
	file string
	metav1.Object
	object runtime.Object
}

// load decodes every manifest of an installation.
func load(t *testing.T) []manifest {
	t.Helper()
	return decode(t, "*.yaml")
}

// decode is strict: an unknown field is an error.
func decode(t *testing.T, pattern string) []manifest {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, rbacv1.AddToScheme, policyv1.AddToScheme, apiextensionsv1.AddToScheme,
		admissionregistrationv1.AddToScheme, coordinationv1.AddToScheme, servingv1.AddToScheme, eventingv1.AddToScheme,
		sourcesv1.AddToScheme, networkingv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatal("no manifests", err)
	}
	var all []manifest
	for _, file := range files {
		content, err := os.ReadFile(file) //nolint:gosec // a file of this repository
		if err != nil {
			t.Fatal(err)
		}
		documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
		for {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if strings.TrimSpace(comment.ReplaceAllString(string(document), "")) == "" {
				continue
			}
			object, _, err := decoder.Decode(document, nil, nil)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			meta, ok := object.(metav1.Object)
			if !ok {
				t.Fatalf("%s: %T has no metadata", file, object)
			}
			all = append(all, manifest{file, meta, object})
		}
	}
	return all
}

// of returns the manifests of one type.
func of[T runtime.Object](t *testing.T) []T {
	t.Helper()
	var out []T
	for _, m := range load(t) {
		if typed, ok := m.object.(T); ok {
			out = append(out, typed)
		}
	}
	if len(out) == 0 {
		t.Fatalf("no manifest of type %T", *new(T))
	}
	return out
}

var comment = regexp.MustCompile(`(?m)^\s*(#.*)?$`)

func TestManifests(t *testing.T) {
	t.Parallel()
	number := regexp.MustCompile(`^[1-5]\d\d-[a-z-]+\.yaml$`)
	last := 0
	seen := map[string]bool{}
	for _, m := range load(t) {
		if !number.MatchString(m.file) {
			t.Errorf("%s has no number", m.file)
		}
		kind := m.object.GetObjectKind().GroupVersionKind().Kind
		name := kind + "/" + m.GetNamespace() + "/" + m.GetName()
		if seen[name] {
			t.Errorf("%s: duplicate %s", m.file, name)
		}
		seen[name] = true
		if m.GetLabels()["app.kubernetes.io/name"] != namespace {
			t.Errorf("%s: %s lacks label app.kubernetes.io/name", m.file, name)
		}
		clusterWide := strings.HasPrefix(kind, "Cluster") || kind == "Namespace" || kind == "CustomResourceDefinition" ||
			kind == "ValidatingWebhookConfiguration"
		if (m.GetNamespace() == namespace) == clusterWide {
			t.Errorf("%s: %s is in namespace %q", m.file, name, m.GetNamespace())
		}
		// Everything is applied in one go: an object of our own kinds would fail while its
		// definition is new.
		if strings.HasPrefix(kind, "CDEvent") || kind == "CanaryGate" {
			t.Errorf("%s: %s", m.file, name)
		}
		// Later files may need earlier ones: first the namespace, then identities and permissions,
		// then kinds, configuration, and workloads.
		if n := int(m.file[0]); n < last {
			t.Errorf("%s is out of order", m.file)
		} else {
			last = n
		}
	}
}
