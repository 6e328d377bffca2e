// SPDX-License-Identifier: Apache-2.0

package service

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"knative.dev/serving/pkg/apis/serving"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

func TestProjectRevision(t *testing.T) {
	s := transformed(t, newRevision())
	v, ok := s.part.Value.(revisionValue)
	if !ok || v.Owner != "uid-cart" || v.Facts.Generation != 2 || !v.Facts.Ready || v.Facts.UID != "uid-cart-00002" {
		t.Fatalf("got %+v", s.part)
	}
	want := []lifecycle.Image{
		{Container: "app", Image: "registry/app:2", Digest: "registry/app@sha256:aa"},
		{Container: "proxy", Image: "registry/proxy:1", Digest: "registry/proxy@sha256:bb"},
	}
	if !reflect.DeepEqual(v.Facts.Images, want) {
		t.Errorf("images %+v; the serving container comes first", v.Facts.Images)
	}
	unresolved := newRevision()
	unresolved.Status.ContainerStatuses = []servingv1.ContainerStatus{{Name: "app", ImageDigest: "registry/app:2"}}
	v, _ = transformed(t, unresolved).part.Value.(revisionValue)
	if v.Facts.Images[0].Digest != "" {
		t.Errorf("a tag is used as a digest: %+v", v.Facts.Images[0])
	}
}

func TestTemplateHash(t *testing.T) {
	hash := func(change func(*servingv1.Revision)) string {
		r := newRevision()
		change(r)
		v, ok := transformed(t, r).part.Value.(revisionValue)
		if !ok {
			t.Fatal("not a Revision")
		}
		return v.Facts.Template
	}
	as := hash(func(*servingv1.Revision) {})
	for name, change := range map[string]func(*servingv1.Revision){
		"name":                func(r *servingv1.Revision) { r.Name = "cart-00009" },
		"kn timestamp":        func(r *servingv1.Revision) { r.Annotations["client.knative.dev/updateTimestamp"] = "now" },
		"kubectl timestamp":   func(r *servingv1.Revision) { r.Annotations["kubectl.kubernetes.io/restartedAt"] = "now" },
		"Serving annotation":  func(r *servingv1.Revision) { r.Annotations["serving.knative.dev/routes"] = "cart" },
		"another commit":      func(r *servingv1.Revision) { r.Annotations["cdevents.knative-cdevents.dev/commit-sha"] = "def" },
		"labels":              func(r *servingv1.Revision) { r.Labels["serving.knative.dev/routingState"] = "active" },
		"status":              func(r *servingv1.Revision) { r.Status.Conditions = nil },
		"generation as label": func(r *servingv1.Revision) { r.Labels[serving.ConfigurationGenerationLabelKey] = "9" },
	} {
		if hash(change) != as {
			t.Errorf("%s changes the template", name)
		}
	}
	for name, change := range map[string]func(*servingv1.Revision){
		"environment": func(r *servingv1.Revision) { r.Spec.Containers[1].Env = []corev1.EnvVar{{Name: "A", Value: "1"}} },
		"scale":       func(r *servingv1.Revision) { r.Annotations["autoscaling.knative.dev/min-scale"] = "2" },
		"image":       func(r *servingv1.Revision) { r.Spec.Containers[1].Image = "registry/app:3" },
	} {
		if hash(change) == as {
			t.Errorf("%s does not change the template", name)
		}
	}
}
