// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// podMonitor has the fields of the Prometheus operator's kind that we use.
type podMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector            metav1.LabelSelector `json:"selector"`
		PodMetricsEndpoints []struct {
			Port     string `json:"port"`
			Interval string `json:"interval"`
		} `json:"podMetricsEndpoints"`
	} `json:"spec"`
}

// A cluster without the operator lacks its kinds, and one without Grafana does not need dashboards,
// so these manifests are optional.
func TestMonitoringIsOptional(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("optional/monitoring/*.yaml")
	if err != nil || len(files) != 3 {
		t.Errorf("%v %v", files, err)
	}
	for _, m := range load(t) {
		if kind := m.object.GetObjectKind().GroupVersionKind(); kind.Group == "monitoring.coreos.com" || m.GetLabels()["grafana_dashboard"] != "" {
			t.Errorf("%s installs %s %s", m.file, kind, m.GetName())
		}
	}
}

// Each monitor selects the pods of the Deployment that has its name, and their metrics port.
func TestPodMonitors(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("optional/monitoring/podmonitor.yaml")
	if err != nil {
		t.Fatal(err)
	}
	monitored := map[string]bool{}
	for _, document := range strings.Split(string(content), "\n---\n") {
		var m podMonitor
		if err := yaml.UnmarshalStrict([]byte(document), &m); err != nil {
			t.Fatal(err)
		}
		monitored[m.Name] = true
		if m.APIVersion != "monitoring.coreos.com/v1" || m.Kind != "PodMonitor" || m.Namespace != namespace || m.Labels["app.kubernetes.io/name"] != namespace {
			t.Errorf("%+v", m.ObjectMeta)
		}
		selector, err := metav1.LabelSelectorAsSelector(&m.Spec.Selector)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range monitoredDeployments(t) {
			selected := selector.Matches(labels.Set(d.Spec.Template.Labels))
			if selected != (d.Name == m.Name) {
				t.Errorf("PodMonitor %s selects Deployment %s: %v", m.Name, d.Name, selected)
			}
			endpoints := m.Spec.PodMetricsEndpoints
			if d.Name == "core" {
				// As a Deployment; the other endpoint is for pods of Serving.
				if selected && (len(endpoints) != 2 || endpoints[0].Port != "user-port" || !hasPort(d, endpoints[1].Port, 8080)) {
					t.Errorf("the core has no such ports: %+v", endpoints)
				}
				continue
			}
			if selected && (len(endpoints) != 1 || !hasPort(d, endpoints[0].Port, 9090)) {
				t.Errorf("Deployment %s has no such port: %+v", d.Name, m.Spec.PodMetricsEndpoints)
			}
		}
	}
	for _, d := range monitoredDeployments(t) {
		if !monitored[d.Name] {
			t.Errorf("nothing scrapes Deployment %s", d.Name)
		}
	}
	for _, c := range of[*corev1.ConfigMap](t) {
		if c.Name == "config-observability" && c.Data["metrics-protocol"] != "prometheus" {
			t.Errorf("nothing is exported to Prometheus: %v", c.Data)
		}
	}
}

// monitoredDeployments are those of an installation, and of the serverless mode.
func monitoredDeployments(t *testing.T) []*appsv1.Deployment {
	t.Helper()
	return slices.Concat(of[*appsv1.Deployment](t), inFolder[*appsv1.Deployment](t, serverless), inFolder[*appsv1.Deployment](t, serverlessPlain))
}

func hasPort(d *appsv1.Deployment, name string, number int32) bool {
	for _, c := range d.Spec.Template.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == name && p.ContainerPort == number {
				return true
			}
		}
	}
	return false
}
