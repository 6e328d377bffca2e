// SPDX-License-Identifier: Apache-2.0

// Command template writes the CustomResourceDefinition of ClusterCanaryGateTemplates. Its policy is that of
// a CanaryGate, with the same rules and defaults, but for the defaults of whole groups: a group that a
// template does not state must stay open. "make generate" runs it.
package main

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"regexp"

	"go.yaml.in/yaml/v3"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

const (
	gates     = "config/300-canarygate.yaml"
	templates = "config/300-clustercanarygatetemplate.yaml"
)

const head = `# Written by "make generate" from config/300-canarygate.yaml. Do not edit.
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: clustercanarygatetemplates.knative-cdevents.dev
  labels:
    app.kubernetes.io/name: knative-cdevents
    app.kubernetes.io/version: devel
    knative.dev/crd-install: "true"
spec:
  group: knative-cdevents.dev
  scope: Cluster
  names:
    kind: ClusterCanaryGateTemplate
    listKind: ClusterCanaryGateTemplateList
    plural: clustercanarygatetemplates
    singular: clustercanarygatetemplate
    shortNames: [cgatetemplate]
    categories: [knative]
  versions:
    - name: v1alpha1
      served: true
      storage: true
      additionalPrinterColumns:
        - name: Age
          type: date
          jsonPath: .metadata.creationTimestamp
      schema:
        openAPIV3Schema:
          description: >-
            ClusterCanaryGateTemplate is a policy by which many gates judge. A CanaryGate refers to it with
            spec.templateRef. What a template says, holds: each group that it states replaces the group of that name
            in the gate. What it leaves open, the gate says.
          type: object
          required: [spec]
          properties:
            spec:
              description: >-
                spec is the policy. A group that is not stated stays open. Within a group that is stated, defaults are
                stored.
              type: object
              properties:
`

// indent is how deep the groups are in the definition.
const indent = "                "

func main() {
	log.SetFlags(0)
	raw, err := os.ReadFile(gates)
	if err != nil {
		log.Fatalf("template: run this in the root of the repository: %v", err)
	}
	out, err := definition(raw)
	if err != nil {
		log.Fatalf("template: %s: %v", gates, err)
	}
	if err := os.WriteFile(templates, out, 0o644); err != nil { //nolint:gosec // a world-readable manifest
		log.Fatalf("template: %v", err)
	}
}

// ofDefault is how the description of a group ends that has a default.
var ofDefault = regexp.MustCompile(` Defaults to [^\n]*`)

// definition returns that of templates, from that of gates.
func definition(gates []byte) ([]byte, error) {
	var crd yaml.Node
	if err := yaml.Unmarshal(gates, &crd); err != nil {
		return nil, fmt.Errorf("reading it: %w", err)
	}
	at := crd.Content[0]
	for _, key := range []string{"spec", "versions", "", "schema", "openAPIV3Schema", "properties", "spec", "properties"} {
		if at = child(at, key); at == nil {
			return nil, fmt.Errorf("it has no %q", key)
		}
	}
	groups := &yaml.Node{Kind: yaml.MappingNode}
	for _, name := range (&v1alpha1.GatePolicy{}).AllGroups() {
		group := child(at, name)
		if group == nil {
			return nil, fmt.Errorf("it has no group %q", name)
		}
		without(group, "default")
		description := child(group, "description")
		description.Value = ofDefault.ReplaceAllString(description.Value, "")
		groups.Content = append(groups.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, group)
	}
	var body bytes.Buffer
	e := yaml.NewEncoder(&body)
	e.SetIndent(2)
	if err := e.Encode(groups); err != nil {
		return nil, fmt.Errorf("writing the groups: %w", err)
	}
	out := bytes.NewBufferString(head)
	for line := range bytes.Lines(body.Bytes()) {
		if len(bytes.TrimSpace(line)) > 0 {
			out.WriteString(indent)
		}
		out.Write(line)
	}
	return out.Bytes(), nil
}

// child returns the value of a key, or the first item of a list; nil if there is none.
func child(of *yaml.Node, key string) *yaml.Node {
	if of.Kind == yaml.SequenceNode && len(of.Content) > 0 {
		return of.Content[0]
	}
	for i := 0; i+1 < len(of.Content); i += 2 {
		if of.Content[i].Value == key {
			return of.Content[i+1]
		}
	}
	return nil
}

// without removes a key.
func without(of *yaml.Node, key string) {
	for i := 0; i+1 < len(of.Content); i += 2 {
		if of.Content[i].Value == key {
			of.Content = append(of.Content[:i], of.Content[i+2:]...)
			return
		}
	}
}
