// SPDX-License-Identifier: Apache-2.0

// Command generate writes the templates of the Helm chart from the manifests in config, so that no object is written
// twice. "make generate" runs it. The texts stay, with their comments; what users set becomes an expression.
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	manifests = "config/"
	templates = "charts/knative-cdevents/templates/"
)

// A part of the chart is made of the manifests that match a pattern.
type part struct {
	from, to string
	// when is the value that the part depends on. each is a list of namespaces: the part is in each of them.
	when, each string
}

var parts = []part{
	{from: "[1-5]*.yaml"},
	{from: "optional/clusterrole-identities.yaml", to: "optional/", when: ".Values.identities.enabled"},
	{from: "optional/environments/*.yaml", to: "environments/", when: ".Values.environments.enabled"},
	{from: "optional/monitoring/podmonitor.yaml", to: "monitoring/", when: ".Values.monitoring.podMonitors.enabled"},
	{from: "optional/monitoring/rules.yaml", to: "monitoring/", when: ".Values.monitoring.rules.enabled"},
	{from: "optional/monitoring/dashboards.yaml", to: "monitoring/", when: ".Values.monitoring.dashboards.enabled"},
	{from: "optional/networkpolicies/*.yaml", to: "networkpolicies/", when: ".Values.networkPolicies.enabled"},
	{from: "optional/sidecar/*.yaml", to: "sidecar/", when: ".Values.sidecar.enabled"},
	{from: "tekton/*.yaml", to: "tekton/", when: ".Values.tekton.enabled"},
	{from: "tekton/task/*/*/*.yaml", to: "tekton/", each: ".Values.tekton.namespaces"},
	{from: "tekton/pipeline/*/*/*.yaml", to: "tekton/", each: ".Values.tekton.namespaces"},
}

// helmMakes is what Helm creates itself.
const helmMakes = "config/100-namespace.yaml"

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatalf("generate: %v", err)
	}
}

func run() error {
	old, err := filepath.Glob(templates + "*/*.yaml")
	if err != nil {
		return fmt.Errorf("looking for old templates: %w", err)
	}
	more, err := filepath.Glob(templates + "[1-9]*.yaml")
	if err != nil {
		return fmt.Errorf("looking for old templates: %w", err)
	}
	for _, file := range append(old, more...) {
		if strings.HasPrefix(file, templates+"tests/") {
			continue
		}
		if err := os.Remove(file); err != nil {
			return fmt.Errorf("removing an old template: %w", err)
		}
	}
	for _, p := range parts {
		files, err := filepath.Glob(manifests + p.from)
		if err != nil || len(files) == 0 {
			return fmt.Errorf("no file matches %s%s: run this in the root of the repository (%w)", manifests, p.from, err)
		}
		for _, file := range files {
			if file == helmMakes {
				continue
			}
			if err := p.write(file); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p part) write(file string) error {
	raw, err := os.ReadFile(file) //nolint:gosec // a file of this repository
	if err != nil {
		return fmt.Errorf("reading a manifest: %w", err)
	}
	documents := strings.Split(strings.TrimSpace(string(raw)), "\n---\n")
	for i, d := range documents {
		if documents[i], err = template(d); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	text := strings.Join(documents, "\n---\n") + "\n"
	switch {
	case p.when != "":
		text = fmt.Sprintf("{{- if %s }}\n%s{{- end }}\n", p.when, text)
	case p.each != "":
		text = regexp.MustCompile(`(?m)^metadata:$`).ReplaceAllString(text, "metadata:\n  namespace: {{ . }}")
		text = fmt.Sprintf("{{- range %s }}\n---\n%s{{- end }}\n", p.each, text)
	}
	to := templates + p.to + filepath.Base(file)
	if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
		return fmt.Errorf("making a folder of templates: %w", err)
	}
	text = "{{- /* Generated from " + file + " by charts/generate: do not edit. */ -}}\n" + text
	if err := os.WriteFile(to, []byte(text), 0o600); err != nil { //nolint:gosec // the name of a manifest
		return fmt.Errorf("writing a template: %w", err)
	}
	return nil
}

// everywhere is replaced in all documents. An object is in the namespace of the release, whatever its name is.
var everywhere = strings.NewReplacer(
	"app.kubernetes.io/version: devel", "app.kubernetes.io/version: {{ $.Chart.AppVersion | quote }}",
	"namespace: knative-cdevents\n", "namespace: {{ $.Release.Namespace }}\n",
	`resourceNames: ["knative-cdevents"]`, "resourceNames: [{{ $.Release.Namespace | quote }}]",
	"kubernetes.io/metadata.name: knative-cdevents\n", "kubernetes.io/metadata.name: {{ $.Release.Namespace }}\n",
	"kubernetes.io/metadata.name: monitoring\n",
	"kubernetes.io/metadata.name: {{ $.Values.networkPolicies.monitoringNamespace }}\n",
)

var kind = regexp.MustCompile(`(?m)^kind: (\w+)$`)

func template(text string) (string, error) {
	found := kind.FindStringSubmatch(text)
	if found == nil {
		return "", fmt.Errorf("a document has no kind: %.100q", text)
	}
	// What looks like an expression is text: of Prometheus, Grafana or our own queries.
	text = strings.ReplaceAll(text, "{{", `{{ "{{" }}`)
	text = strings.TrimSuffix(everywhere.Replace(text+"\n"), "\n")
	d := document{lines: strings.Split(text, "\n")}
	switch found[1] {
	case "CustomResourceDefinition":
		d.definition()
	case "Deployment":
		d.deployment()
	case "ConfigMap":
		d.configMap()
	case "PodMonitor":
		d.podMonitor()
	case "PrometheusRule":
		d.labels("$.Values.monitoring.rules.labels")
	case "NetworkPolicy":
		d.networkPolicy()
	case "Task":
		d.image(nil)
	}
	return strings.Join(d.lines, "\n"), d.err
}
