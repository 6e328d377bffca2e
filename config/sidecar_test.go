// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"knative.dev/pkg/webhook"
)

const injector = "sidecar-injector"

// injectorOf returns the manifests of one type in optional/sidecar.
func injectorOf[T any](t *testing.T) []T {
	t.Helper()
	var out []T
	for _, m := range decode(t, "optional/sidecar/*.yaml") {
		if typed, ok := m.object.(T); ok {
			out = append(out, typed)
		}
	}
	if len(out) == 0 {
		t.Fatalf("no manifest of type %T", *new(T))
	}
	return out
}

// The injector runs without privileges, in two replicas that are not evicted together.
func TestInjectorRuns(t *testing.T) {
	t.Parallel()
	d := injectorOf[*appsv1.Deployment](t)[0]
	checkPrivileges(t, injector, d.Spec.Template.Spec)
	if *d.Spec.Replicas != 2 {
		t.Errorf("%+v", d.Spec)
	}
	pod := labels.Set(d.Spec.Template.Labels)
	budget := injectorOf[*policyv1.PodDisruptionBudget](t)[0]
	if s, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector); err != nil || !s.Matches(pod) || budget.Spec.MaxUnavailable.IntValue() != 1 {
		t.Errorf("%+v, %v", budget.Spec, err)
	}
	service := injectorOf[*corev1.Service](t)[0]
	if !labels.SelectorFromSet(service.Spec.Selector).Matches(pod) || service.Name != injector {
		t.Errorf("%+v", service.Spec)
	}
	for name, other := range deployments(t) {
		if labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(other.Spec.Template.Labels)) {
			t.Errorf("the Service selects pods of %s", name)
		}
	}
	if s := injectorOf[*corev1.Secret](t)[0]; len(s.Data)+len(s.StringData) > 0 {
		t.Error("the manifests contain a certificate")
	}
	for _, m := range decode(t, "optional/sidecar/*.yaml") {
		if m.GetLabels()["app.kubernetes.io/name"] != namespace {
			t.Errorf("%s lacks a label", m.GetName())
		}
	}
}

// All that the program reads is set, and the names in its code are those of the manifests.
func TestInjectorIsWired(t *testing.T) {
	t.Parallel()
	wiring, err := os.ReadFile("../cmd/injector/main.go")
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]bool{}
	for _, v := range injectorOf[*appsv1.Deployment](t)[0].Spec.Template.Spec.Containers[0].Env {
		set[v.Name] = true
	}
	read := regexp.MustCompile(`env\("([A-Z_]+)"\)`).FindAllStringSubmatch(string(wiring), -1)
	for _, v := range read {
		if !set[v[1]] {
			t.Errorf("%s is not set", v[1])
		}
	}
	if len(read) < 4 {
		t.Errorf("found only %v", read)
	}
	for _, name := range []string{
		injectorOf[*corev1.Service](t)[0].Name, injectorOf[*corev1.Secret](t)[0].Name,
		injectorOf[*admissionregistrationv1.MutatingWebhookConfiguration](t)[0].Name,
		injectorOf[*admissionregistrationv1.ValidatingWebhookConfiguration](t)[0].Name,
	} {
		if !strings.Contains(string(wiring), `"`+name+`"`) {
			t.Errorf("the program does not know %s", name)
		}
	}
}

// Only namespaces with the label are asked about, and in them only what declares a sidecar. Whether the conditions do
// what they say is tested with a real API server, in cmd/injector.
func TestInjectorIsOptIn(t *testing.T) {
	t.Parallel()
	pods := injectorOf[*admissionregistrationv1.MutatingWebhookConfiguration](t)[0]
	templates := injectorOf[*admissionregistrationv1.ValidatingWebhookConfiguration](t)[0]
	if len(pods.Webhooks) != 1 || len(templates.Webhooks) != 1 {
		t.Fatal(pods, templates)
	}
	p, v := pods.Webhooks[0], templates.Webhooks[0]
	if p.Name != pods.Name || v.Name != templates.Name {
		t.Error("Knative's controllers update the webhook that has the name of its configuration")
	}
	for name, w := range map[string]struct {
		in         *metav1.LabelSelector
		policy     *admissionregistrationv1.FailurePolicyType
		effects    *admissionregistrationv1.SideEffectClass
		conditions []admissionregistrationv1.MatchCondition
		service    *admissionregistrationv1.ServiceReference
	}{
		p.Name: {p.NamespaceSelector, p.FailurePolicy, p.SideEffects, p.MatchConditions, p.ClientConfig.Service},
		v.Name: {v.NamespaceSelector, v.FailurePolicy, v.SideEffects, v.MatchConditions, v.ClientConfig.Service},
	} {
		if w.in.MatchLabels["knative-cdevents.dev/sidecar"] != "enabled" || *w.policy != admissionregistrationv1.Fail ||
			*w.effects != admissionregistrationv1.SideEffectClassNone || len(w.conditions) != 2 || w.service.Name != injector {
			t.Errorf("%s: %+v", name, w)
		}
	}
	if o := p.ObjectSelector.MatchExpressions; len(o) != 1 || o[0].Key != "serving.knative.dev/revision" || o[0].Operator != metav1.LabelSelectorOpExists {
		t.Errorf("%+v", o)
	}
	// What Knative's library would write is there already: a field with two writers is a conflict for Helm. No update is
	// asked about all the same.
	if fmt.Sprint(p.Rules) != "[{[CREATE UPDATE] {[] [v1] [pods pods/status] <nil>}}]" || v.Rules != nil {
		t.Errorf("%v, %v", p.Rules, v.Rules)
	}
	for _, in := range []*metav1.LabelSelector{p.NamespaceSelector, v.NamespaceSelector} {
		same := webhook.EnsureLabelSelectorExpressions(in, &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "webhooks.knative.dev/exclude", Operator: metav1.LabelSelectorOpDoesNotExist},
		}})
		if diff := cmp.Diff(same, in); diff != "" {
			t.Errorf("Knative changes the selector (-):\n%s", diff)
		}
	}
	if c := p.MatchConditions[0].Expression; !strings.HasPrefix(c, "request.operation == 'CREATE' && ") {
		t.Errorf("updates are asked about: %s", c)
	}
}

// The injector writes its certificate and its two configurations. It reads nothing outside of its namespace but these.
func TestInjectorMayDoLittle(t *testing.T) {
	t.Parallel()
	account := []rbacv1.Subject{{Kind: "ServiceAccount", Name: injector, Namespace: namespace}}
	for _, b := range injectorOf[*rbacv1.ClusterRoleBinding](t) {
		if !slices.Equal(b.Subjects, account) || b.RoleRef.Name != "knative-cdevents-sidecar-injector" {
			t.Errorf("%+v", b)
		}
	}
	for _, b := range injectorOf[*rbacv1.RoleBinding](t) {
		if !slices.Equal(b.Subjects, account) || b.RoleRef.Name != injector {
			t.Errorf("%+v", b)
		}
	}
	var writes []string
	rules := slices.Concat(injectorOf[*rbacv1.ClusterRole](t)[0].Rules, injectorOf[*rbacv1.Role](t)[0].Rules)
	for _, r := range rules {
		checkExplicit(t, r)
		if !slices.Equal(r.Verbs, reading) {
			writes = append(writes, fmt.Sprint(r.Verbs, r.Resources, r.ResourceNames))
		}
	}
	want := []string{
		"[update][mutatingwebhookconfigurations][pods.sidecar.knative-cdevents.dev]",
		"[update][validatingwebhookconfigurations][templates.sidecar.knative-cdevents.dev]",
		"[get][customresourcedefinitions][services.serving.knative.dev]", "[get][namespaces][knative-cdevents]", "[update][namespaces/finalizers][knative-cdevents]",
		"[update][secrets][sidecar-injector-certs]", "[create get update][leases][]", "[create patch][events][]",
	}
	for i := range writes {
		writes[i] = strings.ReplaceAll(writes[i], "] [", "][")
	}
	if !slices.Equal(writes, want) {
		t.Errorf("it may %q", writes)
	}
}

// ko builds the images of this module only, and of what this module requires: the sidecar is one of these.
func TestOptionalImagesAreBuilt(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]int{
		"sidecar/500-injector.yaml": 3, "serverless/500-core.yaml": 1, "serverless/500-doorbell.yaml": 1,
		"serverless/deployment/500-core.yaml": 1, "serverless/eventing/300-rings.yaml": 1,
	} {
		content, err := os.ReadFile("optional/" + file)
		if err != nil {
			t.Fatal(err)
		}
		images := regexp.MustCompile(`ko://(\S+)`).FindAllStringSubmatch(string(content), -1)
		if len(images) != want {
			t.Errorf("%s: %v", file, images)
		}
		for _, image := range images {
			out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Name}}", image[1]).CombinedOutput()
			if err != nil || strings.TrimSpace(string(out)) != "main" {
				t.Errorf("%s: %s: %s, %v", file, image[1], out, err)
			}
		}
	}
}
