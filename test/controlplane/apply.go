// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// Create creates the objects of manifests, which are files in this repository. A field that the API server does not know
// is an error.
func (c *ControlPlane) Create(ctx context.Context, manifests ...string) error {
	return c.create(ctx, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}, manifests)
}

// Admit asks the API server whether it would create the objects of manifests, and creates nothing.
func (c *ControlPlane) Admit(ctx context.Context, manifests ...string) error {
	return c.create(ctx, metav1.CreateOptions{
		FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll},
	}, manifests)
}

func (c *ControlPlane) create(ctx context.Context, options metav1.CreateOptions, manifests []string) error {
	root, err := Root(ctx)
	if err != nil {
		return err
	}
	discover, err := discovery.NewDiscoveryClientForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("making a client for discovery: %w", err)
	}
	served, err := restmapper.GetAPIGroupResources(discover)
	if err != nil {
		return fmt.Errorf("asking which kinds the API server has: %w", err)
	}
	objects, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("making a client for manifests: %w", err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(served)
	for _, manifest := range manifests {
		content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(manifest)))
		if err != nil {
			return fmt.Errorf("reading a manifest: %w", err)
		}
		for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), len(content)+1); ; {
			o := &unstructured.Unstructured{}
			if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return fmt.Errorf("reading %s: %w", manifest, err)
			}
			if len(o.Object) == 0 {
				continue // a comment
			}
			if err := createOne(ctx, objects, mapper, o, options); err != nil {
				return fmt.Errorf("creating %s %s of %s: %w", o.GetKind(), o.GetName(), manifest, err)
			}
		}
	}
	return nil
}

func createOne(ctx context.Context, objects dynamic.Interface, mapper meta.RESTMapper, o *unstructured.Unstructured,
	options metav1.CreateOptions,
) error {
	kind := o.GroupVersionKind()
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return fmt.Errorf("looking for its kind: %w", err)
	}
	to := dynamic.ResourceInterface(objects.Resource(mapping.Resource))
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		to = objects.Resource(mapping.Resource).Namespace(o.GetNamespace())
	}
	_, err = to.Create(ctx, o, options)
	return err
}
