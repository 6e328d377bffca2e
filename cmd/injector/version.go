// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"knative.dev/pkg/injection"
)

// servingVersion reads which version of Knative Serving the cluster has, from a label of its CRD. Its schema, a
// hundred kilobytes, stays where it is.
type servingVersion struct{ client metadata.Interface }

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

func newServingVersion(ctx context.Context) *servingVersion {
	return &servingVersion{client: metadata.NewForConfigOrDie(injection.GetConfig(ctx))}
}

// get asks the API server each time: few pods need it, and Serving may have been upgraded.
func (s *servingVersion) get(ctx context.Context) (string, error) {
	crd, err := s.client.Resource(crds).Get(ctx, "services.serving.knative.dev", metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading the version of Knative Serving: %w", err)
	}
	return crd.GetLabels()["app.kubernetes.io/version"], nil
}
