// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

const rulesHead = `# Recording and alerting rules, for the Prometheus operator. Generated from dashboards/alerts/rules.yaml: "make generate"
# writes it. docs/runbooks.md says what each alert means, and what to do.
`

// prometheusRule wraps a file of rules into the resource of the Prometheus operator.
func prometheusRule(rules []byte) ([]byte, error) {
	var spec map[string]any
	if err := yaml.UnmarshalStrict(rules, &spec); err != nil {
		return nil, fmt.Errorf("reading the rules: %w", err)
	}
	content, err := yaml.Marshal(map[string]any{
		"apiVersion": "monitoring.coreos.com/v1",
		"kind":       "PrometheusRule",
		"metadata": map[string]any{
			"name": "knative-cdevents", "namespace": "knative-cdevents",
			"labels": map[string]string{
				"app.kubernetes.io/name":      "knative-cdevents",
				"app.kubernetes.io/component": "alerts",
				"app.kubernetes.io/version":   "devel",
			},
		},
		"spec": spec,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the PrometheusRule: %w", err)
	}
	return append([]byte(rulesHead), content...), nil
}
