//go:build e2e

package e2e

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	eventingv1 "knative.dev/eventing/pkg/apis/eventing/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// TestRefusals writes what could not be obeyed. It is refused at once, and the answer says what is wrong, and where.
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
	filter := func(f eventingv1.SubscriptionsAPIFilter) func(*v1alpha1.CDEventSourceSpec) {
		return func(spec *v1alpha1.CDEventSourceSpec) { spec.Filters = []eventingv1.SubscriptionsAPIFilter{f} }
	}
	for want, change := range map[string]func(*v1alpha1.CDEventSourceSpec){
		"neither ref nor uri": func(spec *v1alpha1.CDEventSourceSpec) { spec.Sink.Ref = nil },
		"spec.filters[0]":     filter(eventingv1.SubscriptionsAPIFilter{CESQL: "1 + 1"}),
		// The specification of CESQL knows no such function.
		"NOWHERE":                filter(eventingv1.SubscriptionsAPIFilter{CESQL: "NOWHERE(type)"}),
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
		t.Errorf("%d sources were let in: %v", len(list.Items), err)
	}

	// What is right is let in, and its change for the worse is not.
	s.source("right", service("sink"), filter(eventingv1.SubscriptionsAPIFilter{CESQL: "type LIKE 'dev.cdevents.service.%'"}))
	source, err := api.Get(ctx, "right", metav1.GetOptions{})
	s.must(err)
	source.Spec.Filters[0].CESQL = "'not a boolean'"
	if _, err := api.Update(ctx, source, metav1.UpdateOptions{}); err == nil || !strings.Contains(err.Error(), "spec.filters[0]") {
		t.Errorf("a change for the worse: %v", err)
	}

	for key, value := range map[string]string{"cluster-uri": "here", "shifted-min-interval": "often", "rollback-tempate": "false"} {
		err := suite.Configure(ctx, "config-cdevents", map[string]string{key: value})
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %s in config-cdevents: %v", key, value, err)
		}
		t.Log(err)
	}
	c, err := suite.Kube.CoreV1().ConfigMaps(kit.Namespace).Get(ctx, "config-cdevents", metav1.GetOptions{})
	s.must(err)
	if c.Data["cluster-uri"] == "here" {
		t.Error("a wrong value is in force")
	}
	// The ConfigMaps of others are nobody's business here.
	c = c.DeepCopy()
	c.ObjectMeta = metav1.ObjectMeta{Namespace: s.ns, Name: c.Name, Labels: c.Labels}
	c.Data = map[string]string{"cluster-uri": "here"}
	_, err = suite.Kube.CoreV1().ConfigMaps(s.ns).Create(ctx, c, metav1.CreateOptions{})
	if err != nil {
		t.Errorf("a ConfigMap of another namespace: %v", err)
	}
}
