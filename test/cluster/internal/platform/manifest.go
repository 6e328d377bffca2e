// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// object is one manifest.
type object map[string]any

func (o object) kind() string { return text(o, "kind") }
func (o object) name() string { return text(o, "metadata", "name") }

func text(o map[string]any, path ...string) string {
	for i, key := range path {
		if i == len(path)-1 {
			s, _ := o[key].(string) // anything else counts as absent
			return s
		}
		next, ok := o[key].(map[string]any)
		if !ok {
			return ""
		}
		o = next
	}
	return ""
}

// read reads the manifests in files and folders, in kubectl's order.
func read(skip func(path string) bool, paths ...string) ([]object, error) {
	var all []object
	for _, root := range paths {
		err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() || (filepath.Ext(p) != ".yaml" && filepath.Ext(p) != ".yml") || (skip != nil && skip(p)) {
				return nil
			}
			data, err := os.ReadFile(p) //nolint:gosec // manifests of pinned modules
			if err != nil {
				return err
			}
			objects, err := decode(string(data))
			if err != nil {
				return fmt.Errorf("%s: %w", p, err)
			}
			all = append(all, objects...)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("reading manifests: %w", err)
		}
	}
	return all, nil
}

// Read returns manifests as one text. It does not descend into subfolders; like kubectl, it reads only what was
// named.
func Read(paths ...string) (string, error) {
	var all []object
	for _, root := range paths {
		below := func(p string) bool { return p != root && filepath.Dir(p) != filepath.Clean(root) }
		objects, err := read(below, root)
		if err != nil {
			return "", err
		}
		all = append(all, objects...)
	}
	return encode(all)
}

func decode(stream string) ([]object, error) {
	var all []object
	for doc := range strings.SplitSeq("\n"+stream, "\n---") {
		var o object
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			return nil, fmt.Errorf("not a manifest: %w", err)
		}
		if len(o) > 0 {
			all = append(all, o)
		}
	}
	return all, nil
}

func encode(objects []object) (string, error) {
	var b strings.Builder
	for _, o := range objects {
		data, err := yaml.Marshal(o)
		if err != nil {
			return "", fmt.Errorf("encoding %s %s: %w", o.kind(), o.name(), err)
		}
		b.WriteString("---\n")
		b.Write(data)
	}
	return b.String(), nil
}

// smallRequest is the CPU request of each container of the platform. The projects' own requests suit a busy cluster,
// and add up to more than the two cores of a small machine.
const smallRequest = "10m"

// modest lowers the CPU requests of Deployments; limits stay unchanged.
func modest(objects []object) {
	for _, o := range objects {
		if o.kind() != "Deployment" && o.kind() != "StatefulSet" {
			continue
		}
		for _, c := range containers(o) {
			resources, _ := c["resources"].(map[string]any) // absent: no requests
			if requests, ok := resources["requests"].(map[string]any); ok && requests["cpu"] != nil {
				requests["cpu"] = smallRequest
			}
		}
	}
}

func containers(o object) []map[string]any {
	var node any = map[string]any(o)
	for _, key := range []string{"spec", "template", "spec", "containers"} {
		m, ok := node.(map[string]any)
		if !ok {
			return nil
		}
		node = m[key]
	}
	list, _ := node.([]any) // absent: no containers
	var all []map[string]any
	for _, c := range list {
		if m, ok := c.(map[string]any); ok {
			all = append(all, m)
		}
	}
	return all
}

// configure sets keys of ConfigMaps; a ConfigMap that does not exist is an error.
func configure(objects []object, settings map[string]map[string]string) error {
	var done []string
	for _, o := range objects {
		values, ok := settings[o.name()]
		if !ok || o.kind() != "ConfigMap" {
			continue
		}
		done = append(done, o.name())
		data, ok := o["data"].(map[string]any)
		if !ok {
			data = map[string]any{}
			o["data"] = data
		}
		for k, v := range values {
			data[k] = v
		}
	}
	for name := range settings {
		if !slices.Contains(done, name) {
			return fmt.Errorf("the manifests have no ConfigMap %s to configure", name)
		}
	}
	return nil
}
