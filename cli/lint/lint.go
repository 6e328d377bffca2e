// SPDX-License-Identifier: Apache-2.0

// Package lint finds mistakes in manifests, without a cluster.
//
// Its invariant: it says what the webhook and the controller would say of the same object, with their own rules. What
// it does not know, such as the objects that a manifest refers to, it does not judge.
package lint

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Problem is something wrong in a manifest.
type Problem struct {
	File string `json:"file"`
	// Line is the line of the field, or of the next field around it that is there.
	Line int `json:"line,omitempty"`
	// Object is what is wrong, as KIND/NAME.
	Object string `json:"object,omitempty"`
	// Field is the path of the field, such as spec.sink.uri.
	Field string `json:"field,omitempty"`
	// What says what is wrong, and what would be right.
	What string `json:"what"`
}

// Linter reads manifests.
type Linter struct {
	// System is the namespace of the controller.
	System string
	// Namespace is that of objects which do not say theirs; empty if it is not known.
	Namespace string

	// Problems are those that were found, in the order of the files.
	Problems []Problem
	// Objects is how many objects there were, and Checked how many of them are about this project.
	Objects, Checked int
}

// Read reads a file of manifests, in YAML or JSON.
func (l *Linter) Read(file string, raw []byte) {
	first := len(l.Problems)
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			what := "it is not valid YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")
			if bytes.Contains(raw, []byte("{{")) {
				what += "; it looks like a template: render it first, for example with helm template … | kubectl cdevents lint -f -"
			}
			l.Problems = append(l.Problems, Problem{File: file, What: what})
			break
		}
		if len(document.Content) > 0 {
			older(&document)
			l.object(file, document.Content[0], head{})
		}
	}
	slices.SortStableFunc(l.Problems[first:], func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
}

// object is a manifest and where it is.
type object struct {
	*Linter
	file string
	root *yaml.Node
	raw  []byte
	head
	// first is the index of its first problem.
	first int
}

// head is what all objects have.
type head struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name         string            `json:"name"`
		GenerateName string            `json:"generateName"`
		Namespace    string            `json:"namespace"`
		Labels       map[string]string `json:"labels"`
		Annotations  map[string]string `json:"annotations"`
	} `json:"metadata"`
}

// object checks an object. Those of a list may leave out their kind.
func (l *Linter) object(file string, root *yaml.Node, kind head) {
	for root.Kind == yaml.AliasNode {
		root = root.Alias
	}
	if root.Kind != yaml.MappingNode {
		return
	}
	o := &object{Linter: l, file: file, root: root, head: kind, first: len(l.Problems)}
	var value map[string]any
	err := root.Decode(&value)
	if err == nil {
		o.raw, err = json.Marshal(value)
	}
	if err != nil {
		why := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors:")
		o.report("", "it cannot be read: %s", strings.Join(strings.Fields(why), " "))
		return
	}
	if err := json.Unmarshal(o.raw, &o.head); err != nil {
		// Something of what all objects have is of a wrong type; kubectl says which.
		o.report("metadata", "it cannot be read: %v", err)
		return
	}
	if of, is := strings.CutSuffix(o.Kind, "List"); is {
		if items := child(root, "items"); items != nil && items.Kind == yaml.SequenceNode {
			for _, item := range items.Content {
				l.object(file, item, head{APIVersion: o.APIVersion, Kind: of})
			}
			return
		}
	}
	l.Objects++
	before := len(l.Problems)
	if o.check(value) || len(l.Problems) > before {
		l.Checked++
	}
}

// check reports whether the object is about this project.
func (o *object) check(value map[string]any) bool {
	group, version, _ := strings.Cut(o.APIVersion, "/")
	if o.APIVersion == "" && ourKind(o.Kind) {
		o.report("", "it has no apiVersion; set %s", v1alpha1.SourceKind.GroupVersion())
		return true
	}
	ours := o.keys("metadata.labels", o.Metadata.Labels)
	ours = o.keys("metadata.annotations", o.Metadata.Annotations) || ours
	switch {
	case group == v1alpha1.GroupName:
		o.custom(version, value)
		return true
	case group == "serving.knative.dev":
		return o.service(value) || ours
	case group == "tekton.dev":
		return o.customRun(value) || ours
	case o.APIVersion == "v1" && o.Kind == "ConfigMap":
		return o.configMap() || ours
	}
	return ours
}

// ourKind reports whether only this project has a kind of that name.
func ourKind(kind string) bool {
	schema, _, err := schemaOf(kind, v1alpha1.SourceKind.Version)
	return err == nil && schema != nil
}

// report adds a problem at a field.
func (o *object) report(field, format string, args ...any) {
	p := Problem{File: o.file, Line: line(o.root, field), Field: field, What: fmt.Sprintf(format, args...)}
	if o.Kind != "" {
		p.Object = o.Kind + "/" + cmp.Or(o.Metadata.Name, o.Metadata.GenerateName+"…")
	}
	if !slices.Contains(o.Problems[o.first:], p) {
		o.Problems = append(o.Problems, p)
	}
}

// child returns the value of a key, nil if there is none.
func child(of *yaml.Node, key string) *yaml.Node {
	for of.Kind == yaml.AliasNode {
		of = of.Alias
	}
	if of.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(of.Content); i += 2 {
		if of.Content[i].Value == key {
			return of.Content[i+1]
		}
	}
	return nil
}

// older makes kubectl's YAML 1.1 of what was read as YAML 1.2: yes and no are booleans, times are text, and so is every
// key.
func older(n *yaml.Node) {
	for i, c := range n.Content {
		older(c)
		if n.Kind == yaml.MappingNode && i%2 == 0 && c.Kind == yaml.ScalarNode && c.Tag != "!!merge" {
			c.Tag = "!!str"
		}
	}
	switch {
	case n.Kind != yaml.ScalarNode || n.Style != 0:
	case n.Tag == "!!timestamp":
		n.Tag = "!!str"
	case n.Tag == "!!str":
		switch n.Value {
		case "y", "Y", "yes", "Yes", "YES", "on", "On", "ON":
			n.Tag, n.Value = "!!bool", "true"
		case "n", "N", "no", "No", "NO", "off", "Off", "OFF":
			n.Tag, n.Value = "!!bool", "false"
		}
	}
}
