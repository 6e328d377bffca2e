// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"errors"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/reconciler/service"
)

// An old version of Serving is refused by name, unless the operator allows it. What cannot be read is no reason to end.
func TestOldServingIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		label, allowed string
		err, logged    string
	}{
		"the minor version before": {
			label: "1.18.2", err: "version 1.18.2 of Knative Serving is not supported; it must be at least 1.19.1",
		},
		"a version with a v":       {label: "v0.26.0", err: "SERVING_MIN_VERSION=v0.26.0"},
		"the least":                {label: "1.19.1"},
		"newer":                    {label: "1.23.1"},
		"a version of two numbers": {label: "v1.50"},
		"allowed":                  {label: "1.18.2", allowed: "v1.18.0"},
		"older than what is allowed": {
			label: "1.17.0", allowed: "1.18", err: "version 1.17.0 of Knative Serving is not supported; it must be at least 1.18",
		},
		"more is demanded":      {label: "1.22.0", allowed: "v1.23.0", err: "at least 1.23.0"},
		"no version is allowed": {label: "1.23.0", allowed: "latest", err: "SERVING_MIN_VERSION is not a version such as v1.19.1"},
		"built from source":     {label: "devel", logged: "is not a version"},
		"no label":              {label: "", logged: "is not a version"},
		"not installed":         {label: "missing"},
		"not readable":          {label: "forbidden", logged: "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(service.MinVersionKey, c.allowed)
			scheme := fake.NewTestScheme()
			if err := metav1.AddMetaToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			client := fake.NewSimpleMetadataClient(scheme, &metav1.PartialObjectMetadata{
				TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
				ObjectMeta: metav1.ObjectMeta{Name: service.Resource, Labels: map[string]string{"app.kubernetes.io/version": c.label}},
			})
			switch c.label {
			case "missing":
				client = fake.NewSimpleMetadataClient(scheme)
			case "forbidden":
				client.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, errors.New("forbidden")
				})
			}
			core, logged := observer.New(zap.InfoLevel)
			err := service.CheckVersion(logging.WithLogger(t.Context(), zap.New(core).Sugar()), client)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("the error is %v, want %q", err, c.err)
			}
			got := ""
			for _, entry := range logged.All() {
				got += entry.Message
			}
			if (got == "") != (c.logged == "") || !strings.Contains(got, c.logged) {
				t.Errorf("it logs %q, want %q", got, c.logged)
			}
		})
	}
}
