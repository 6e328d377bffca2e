// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
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

// An old version of Serving is named, together with the least that is supported. What cannot be read ends nothing.
func TestServingIsChecked(t *testing.T) {
	t.Parallel()
	for label, want := range map[string]string{
		"1.18.2": "warn 1.18.2 1.19.0", "v0.26.0": "warn v0.26.0 1.19.0", "1.19.0": "", "1.23.1": "", "v1.50": "",
		"devel": "info not checked", "": "info not checked", "missing": "", "forbidden": "info not checked",
	} {
		scheme := fake.NewTestScheme()
		if err := metav1.AddMetaToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		definition := &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
			ObjectMeta: metav1.ObjectMeta{Name: service.Resource, Labels: map[string]string{"app.kubernetes.io/version": label}},
		}
		client := fake.NewSimpleMetadataClient(scheme, definition)
		switch label {
		case "missing":
			client = fake.NewSimpleMetadataClient(scheme)
		case "forbidden":
			client.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errors.New("forbidden")
			})
		}
		core, logged := observer.New(zap.InfoLevel)
		checkServing(logging.WithLogger(t.Context(), zap.New(core).Sugar()), client)
		got := ""
		for _, entry := range logged.All() {
			got += entry.Level.String()
			if strings.Contains(entry.Message, "not checked") {
				got += " not checked"
			}
			if f := entry.ContextMap(); f["least"] != nil {
				got += fmt.Sprint(" ", f["version"], " ", f["least"])
			}
		}
		if got != want {
			t.Errorf("%q: %q, want %q", label, got, want)
		}
	}
}
