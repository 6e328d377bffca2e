// SPDX-License-Identifier: Apache-2.0

// Package config has the manifests of the installation.
package config

import (
	"embed"
	"fmt"
	"io/fs"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed 300-*.yaml
var definitions embed.FS

// Definitions returns the custom resource definitions, sorted by their names.
var Definitions = sync.OnceValues(func() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	names, err := fs.Glob(definitions, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("reading the definitions: %w", err)
	}
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, name := range names {
		raw, err := definitions.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading a definition: %w", err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(raw, crd); err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		out = append(out, crd)
	}
	return out, nil
})
