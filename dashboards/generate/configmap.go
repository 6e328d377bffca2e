// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const head = `# The dashboards, for a Grafana whose sidecar looks for ConfigMaps with the label
# grafana_dashboard. Generated: "make generate" writes it.
`

// configMap holds the dashboards by file name.
func configMap(boards map[string]string) ([]byte, error) {
	m := corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "knative-cdevents-dashboards", Namespace: "knative-cdevents",
			Labels: map[string]string{
				"app.kubernetes.io/name": "knative-cdevents", "app.kubernetes.io/component": "dashboards",
				"app.kubernetes.io/version": "devel", "grafana_dashboard": "1",
			},
		},
		Data: boards,
	}
	content, err := yaml.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encoding the ConfigMap of the dashboards: %w", err)
	}
	return append([]byte(head), content...), nil
}
