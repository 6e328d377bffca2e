// SPDX-License-Identifier: Apache-2.0

// Package revision makes pods of Revisions for tests, with the code of Knative Serving in the version of go.mod.
//
// Its invariant: nothing in such a pod is written here.
package revision

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	netcfg "knative.dev/networking/pkg/config"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/system"
	apicfg "knative.dev/serving/pkg/apis/config"
	"knative.dev/serving/pkg/apis/serving"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	"knative.dev/serving/pkg/autoscaler/config/autoscalerconfig"
	"knative.dev/serving/pkg/deployment"
	"knative.dev/serving/pkg/observability"
	"knative.dev/serving/pkg/reconciler/revision/config"
	"knative.dev/serving/pkg/reconciler/revision/resources"
)

// Pod returns a pod of Revision cart-00002 of Service shop/cart, with these annotations of its template. What is changed
// is the Revision, and the configuration of Serving, which has its defaults.
func Pod(t testing.TB, annotations map[string]string, change ...func(*servingv1.Revision, *config.Config)) *corev1.Pod {
	t.Helper()
	if os.Getenv(system.NamespaceEnvKey) == "" {
		t.Setenv(system.NamespaceEnvKey, "knative-serving")
	}
	features, err := apicfg.NewFeaturesConfigFromMap(nil)
	if err != nil {
		t.Fatal(err)
	}
	defaults, err := apicfg.NewDefaultsConfigFromMap(nil)
	if err != nil {
		t.Fatal(err)
	}
	deployed, err := deployment.NewConfigFromMap(map[string]string{"queue-sidecar-image": "registry.example.com/queue"})
	if err != nil {
		t.Fatal(err)
	}
	c := &config.Config{
		Config:        &apicfg.Config{Autoscaler: &autoscalerconfig.Config{InitialScale: 1}, Features: features, Defaults: defaults},
		Deployment:    deployed,
		Logging:       &logging.Config{},
		Network:       &netcfg.Config{},
		Observability: observability.DefaultConfig(),
	}
	r := &servingv1.Revision{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "cart-00002", UID: "uid", Annotations: annotations,
		Labels: map[string]string{serving.ServiceLabelKey: "cart", serving.ConfigurationLabelKey: "cart"},
	}}
	r.Spec.Containers = []corev1.Container{{Name: "user-container", Image: "registry.example.com/cart"}}
	for _, f := range change {
		f(r, c)
	}
	r.SetDefaults(apicfg.ToContext(t.Context(), c.Config))
	d, err := resources.MakeDeployment(r, c)
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: *d.Spec.Template.ObjectMeta.DeepCopy(), Spec: *d.Spec.Template.Spec.DeepCopy()}
	pod.Namespace = r.Namespace
	return pod
}
