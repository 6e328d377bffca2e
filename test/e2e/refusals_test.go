// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// TestRefusals writes invalid objects. They are rejected at once, and the message says what is wrong and where.
func TestRefusals(t *testing.T) {
	s := newScene(t)
	ctx := t.Context()
	api := suite.Ours.CDEventSources(s.ns)
	write := func(change func(*v1alpha1.CDEventSourceSpec)) error {
		source := &v1alpha1.CDEventSource{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.SourceKind.Kind},
			ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "wrong"},
			Spec:       v1alpha1.CDEventSourceSpec{},
		}
		source.Spec.Sink = service("sink")
		change(&source.Spec)
		_, err := api.Create(ctx, source, metav1.CreateOptions{})
		return err
	}
	filter := func(f v1alpha1.Filter) func(*v1alpha1.CDEventSourceSpec) {
		return func(spec *v1alpha1.CDEventSourceSpec) { spec.Filters = []v1alpha1.Filter{f} }
	}
	for want, change := range map[string]func(*v1alpha1.CDEventSourceSpec){
		"neither ref nor uri": func(spec *v1alpha1.CDEventSourceSpec) { spec.Sink.Ref = nil },
		"spec.filters[0]":     filter(v1alpha1.Filter{CESQL: "1 + 1"}),
		// CESQL has no such function.
		"NOWHERE":                filter(v1alpha1.Filter{CESQL: "NOWHERE(type)"}),
		"spec.namespaceSelector": func(spec *v1alpha1.CDEventSourceSpec) { spec.NamespaceSelector = &metav1.LabelSelector{} },
		"spec.environment.id":    func(spec *v1alpha1.CDEventSourceSpec) { spec.Environment = &v1alpha1.Environment{} },
		"spec.cdevents.version":  func(spec *v1alpha1.CDEventSourceSpec) { spec.CDEvents = &v1alpha1.CDEventsSpec{Version: "0.3"} },
	} {
		err := write(change)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want a refusal that names %s, got %v", want, err)
		}
		t.Log(err)
	}
	if list, err := api.List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Errorf("%d invalid sources were admitted: %v", len(list.Items), err)
	}

	// A valid source is admitted, and a change that makes it invalid is not.
	s.source("right", service("sink"), filter(v1alpha1.Filter{CESQL: "type LIKE 'dev.cdevents.service.%'"}))
	source, err := api.Get(ctx, "right", metav1.GetOptions{})
	s.must(err)
	source.Spec.Filters[0].CESQL = "'not a boolean'"
	if _, err := api.Update(ctx, source, metav1.UpdateOptions{}); err == nil || !strings.Contains(err.Error(), "spec.filters[0]") {
		t.Errorf("a change to an invalid spec: %v", err)
	}

	for name, wrong := range map[string]map[string]string{
		"config-cdevents": {"cluster-uri": "here", "shifted-min-interval": "often", "rollback-tempate": "false"},
		"config-canary":   {"scrape-interval": "often", "scrape-timeout": "1h", "scrape-intreval": "15s", "mapping.broken": "nonsense: ["},
	} {
		for key, value := range wrong {
			err := suite.Controller.Configure(ctx, name, map[string]string{key: value})
			if err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(key, "mapping.")) {
				t.Errorf("%s: %s in %s: %v", key, value, name, err)
			}
			t.Log(err)
		}
	}
	c, err := suite.Kube.CoreV1().ConfigMaps(kit.Namespace).Get(ctx, "config-cdevents", metav1.GetOptions{})
	s.must(err)
	if c.Data["cluster-uri"] == "here" {
		t.Error("an invalid value is in effect")
	}
	// ConfigMaps in other namespaces are not validated.
	c = c.DeepCopy()
	c.ObjectMeta = metav1.ObjectMeta{Namespace: s.ns, Name: c.Name, Labels: c.Labels}
	c.Data = map[string]string{"cluster-uri": "here"}
	_, err = suite.Kube.CoreV1().ConfigMaps(s.ns).Create(ctx, c, metav1.CreateOptions{})
	if err != nil {
		t.Errorf("a ConfigMap of another namespace: %v", err)
	}
}

// TestRefusalsOfGates writes gates that could not judge anything.
func TestRefusalsOfGates(t *testing.T) {
	sideBySide(t)
	s := newScene(t)
	ctx := t.Context()
	api := suite.Ours.CanaryGates(s.ns)
	write := func(name string, spec v1alpha1.CanaryGateSpec) error {
		_, err := api.Create(ctx, &v1alpha1.CanaryGate{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.GateKind.Kind},
			ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}, Spec: spec,
		}, metav1.CreateOptions{})
		return err
	}
	metric := func(change func(*v1alpha1.GateMetric)) v1alpha1.CanaryGateSpec {
		m := v1alpha1.GateMetric{Type: v1alpha1.MetricSlowRequests}
		change(&m)
		return v1alpha1.CanaryGateSpec{Service: "cart", GatePolicy: v1alpha1.GatePolicy{Metrics: []v1alpha1.GateMetric{m}}}
	}
	minute, unbound, small, yes, no := v1alpha1.Duration{Duration: time.Minute}, v1alpha1.Duration{Duration: 300 * time.Millisecond}, .001, true, false
	for want, spec := range map[string]v1alpha1.CanaryGateSpec{
		"spec.metrics[0].threshold": metric(func(m *v1alpha1.GateMetric) { m.Threshold = &unbound }),
		"spec.failOn[0]":            {Service: "cart", GatePolicy: v1alpha1.GatePolicy{FailOn: []verdict.Verdict{"Pass"}}},
		"spec.service":              {Service: "shop/cart"},
		"spec.baseline":             {Service: "cart", Canary: "cart-00001", Baseline: "cart-00001"},
		"spec.schedule.timeout":     {Service: "cart", GatePolicy: v1alpha1.GatePolicy{Schedule: &v1alpha1.GateSchedule{Timeout: &minute}}},
		"more than negligible":      metric(func(m *v1alpha1.GateMetric) { m.Limit, m.Critical = &small, &yes }),
		"at least one metric":       metric(func(m *v1alpha1.GateMetric) { m.Critical = &no }),
	} {
		err := write("wrong", spec)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want a refusal that names %s, got %v", want, err)
		}
		t.Log(err)
	}
	s.must(write("right", v1alpha1.CanaryGateSpec{Service: "cart"}))
	gate, err := api.Get(ctx, "right", metav1.GetOptions{})
	s.must(err)
	if gate.Spec.Schedule.Timeout.Duration != 30*time.Minute || gate.Spec.Schedule.Warmup != nil || len(gate.Spec.Metrics) != 4 {
		t.Errorf("stored: %+v", gate.Spec)
	}
	// A patch, because the controller writes the status at the same time.
	worse := []byte(`{"spec": {"canary": "cart-00002", "baseline": "cart-00002"}}`)
	if _, err := api.Patch(ctx, "right", types.MergePatchType, worse, metav1.PatchOptions{}); err == nil || !strings.Contains(err.Error(), "spec.baseline") {
		t.Errorf("a change to an invalid spec: %v", err)
	}
}
