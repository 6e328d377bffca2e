package config

import (
	"os"
	"path/filepath"
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
	files, err := filepath.Glob("optional/monitoring/*")
	if err != nil || len(files) != 3 {
		t.Errorf("%v %v", files, err)
	}
	for _, m := range load(t) {
		if kind := m.object.GetObjectKind().GroupVersionKind(); kind.Group == "monitoring.coreos.com" || m.GetLabels()["grafana_dashboard"] != "" {
			t.Errorf("%s installs %s %s", m.file, kind, m.GetName())
		}
	}
}

// The monitor selects the pods of the controller and their metrics port.
func TestPodMonitor(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("optional/monitoring/podmonitor.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var m podMonitor
	if err := yaml.UnmarshalStrict(content, &m); err != nil {
		t.Fatal(err)
	}
	if m.APIVersion != "monitoring.coreos.com/v1" || m.Kind != "PodMonitor" || m.Namespace != namespace || m.Labels["app.kubernetes.io/name"] != namespace {
		t.Errorf("%+v", m.ObjectMeta)
	}
	selector, err := metav1.LabelSelectorAsSelector(&m.Spec.Selector)
	if err != nil {
		t.Fatal(err)
	}
	var controller appsv1.Deployment
	for _, d := range of[*appsv1.Deployment](t) {
		// Other Deployments have no metrics of Services.
		if found := selector.Matches(labels.Set(d.Spec.Template.Labels)); found != (d.Name == "controller") {
			t.Errorf("Deployment %s is selected: %v", d.Name, found)
		} else if found {
			controller = *d
		}
	}
	named := false
	for _, c := range controller.Spec.Template.Spec.Containers {
		for _, p := range c.Ports {
			named = named || len(m.Spec.PodMetricsEndpoints) == 1 && p.Name == m.Spec.PodMetricsEndpoints[0].Port && p.ContainerPort == 9090
		}
	}
	if !named {
		t.Errorf("the controller has no such port: %+v", m.Spec.PodMetricsEndpoints)
	}
	for _, c := range of[*corev1.ConfigMap](t) {
		if c.Name == "config-observability" && c.Data["metrics-protocol"] != "prometheus" {
			t.Errorf("the controller does not export to Prometheus: %v", c.Data)
		}
	}
}
