// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate/customrun"
	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
)

// templateOf completes a part of a policy.
func templateOf(spec string) *unstructured.Unstructured {
	if !strings.HasPrefix(spec, "{") {
		spec = "{" + spec + "}"
	}
	object := gateOf(spec)
	object.SetKind(v1alpha1.TemplateKind.Kind)
	object.SetNamespace("")
	return object
}

func validateTemplate(t *testing.T, object *unstructured.Unstructured) error {
	t.Helper()
	var template v1alpha1.ClusterCanaryGateTemplate
	decoded(t, object, &template)
	if err := template.Validate(t.Context()); err != nil {
		return err
	}
	return nil
}

// ofPolicy matches the parts of a spec that a template has, too.
var ofPolicy = regexp.MustCompile(`^"(` + strings.Join((&v1alpha1.GatePolicy{}).AllGroups(), "|") + `)":`)

// checkTemplateRules tries each rule of a gate's policy in a template.
func checkTemplateRules(t *testing.T, api dynamic.ResourceInterface) {
	t.Helper()
	rules := maps.Clone(gateRules)
	maps.DeleteFunc(rules, func(_ string, r rule) bool { return !ofPolicy.MatchString(r.spec) })
	if len(rules) < len(gateRules)-20 {
		t.Errorf("only %d of %d rules are tried", len(rules), len(gateRules))
	}
	checkRules(t, api, rules, templateOf, validateTemplate)
	right := slices.DeleteFunc(slices.Clone(rightGates), func(spec string) bool { return !ofPolicy.MatchString(spec) })
	checkRight(t, api, append(right, `{}`), templateOf, validateTemplate)
}

// The policy of a template has the schema of a gate's, but no group has a default: what a template does not state, it
// leaves open. Within a group that it states, defaults are stored.
func TestTemplateHasThePolicyOfAGate(t *testing.T) {
	t.Parallel()
	gates, _ := schemaOf(t, crd(t, "canarygates"))
	templates, _ := schemaOf(t, crd(t, "clustercanarygatetemplates"))
	want, got := map[string]schema.Structural{}, templates.Properties["spec"].Properties
	for _, name := range (&v1alpha1.GatePolicy{}).AllGroups() {
		group := gates.Properties["spec"].Properties[name]
		group.Default = schema.JSON{}
		group.Description, _, _ = strings.Cut(group.Description, " Defaults to")
		want[name] = group
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(+):\n%s", diff)
	}
	for given, stored := range map[string]string{
		`{}`:                         `{}`,
		`{"score":{"pass":99}}`:      `{"score":{"pass":99,"warn":75,"minCoverage":0.5}}`,
		`{"failOn":["Fail"]}`:        `{"failOn":["Fail"]}`,
		`{"minimum":{},"limits":{}}`: `{"minimum":{"canaryRequests":300,"baselineRequests":300,"shards":3},"limits":{"unaccountedRatio":0.01}}`,
	} {
		object := map[string]any{}
		if err := json.Unmarshal([]byte(`{"spec":`+given+`}`), &object); err != nil {
			t.Fatal(err)
		}
		defaulting.Default(object, templates)
		raw, err := json.Marshal(object["spec"])
		if err != nil {
			t.Fatal(err)
		}
		var is, should any
		if err := json.Unmarshal(raw, &is); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(stored), &should); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(should, is); diff != "" {
			t.Errorf("%s (+):\n%s", given, diff)
		}
	}
}

const samples = "samples/template/"

// The samples hold in a namespace with the label, and only there. docs/gate-templates.md shows them.
func checkTemplateSamples(t *testing.T, cp *controlplane.ControlPlane) {
	t.Helper()
	ctx := t.Context()
	if err := cp.InstallCustomRuns(ctx); err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	for name, labels := range map[string]map[string]string{"shop": {"canary-template": "strict"}, "free": nil} {
		_, err := kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"100-template.yaml", "300-policy.yaml"} {
		if err := cp.Create(ctx, "config/"+samples+file); err != nil {
			t.Fatal(err)
		}
	}
	untyped, err := dynamic.NewForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	try := func(namespace, kind, spec string) error {
		object := gateOf(spec)
		object.SetNamespace(namespace)
		resource := v1alpha1.GateResource
		if kind == "CustomRun" {
			object.SetAPIVersion("tekton.dev/v1beta1")
			resource = customrun.Resource
		}
		object.SetKind(kind)
		_, err := untyped.Resource(resource).Namespace(namespace).Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	const gate, embedded = `"apiVersion":"knative-cdevents.dev/v1alpha1","kind":"CanaryGate"`, `{"customSpec":{"apiVersion":"knative-cdevents.dev/v1alpha1","kind":"CanaryGate","spec":{"service":"cart"`
	// The API server needs a moment to learn of policies.
	for _, wrong := range []struct{ kind, spec, says string }{
		{"CanaryGate", `{"service":"cart"}`, "spec.templateRef.name must be strict in this namespace"},
		{"CanaryGate", `{"service":"cart","templateRef":{"name":"lenient"}}`, "spec.templateRef.name must be strict"},
		{"CustomRun", embedded + `}}}`, "embed one with templateRef.name strict"},
		{"CustomRun", `{"customRef":{` + gate + `},"params":[{"name":"service","value":"cart"}]}`, "refer to a CanaryGate by customRef.name"},
		{"CustomRun", `{"customRef":{` + gate + `},"params":[{"name":"gate","value":""}]}`, "refer to a CanaryGate by customRef.name"},
	} {
		var err error
		for range 100 {
			if err = try("shop", wrong.kind, wrong.spec); err != nil {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), wrong.says) {
			t.Errorf("%s %s: %v", wrong.kind, wrong.spec, err)
		}
		if err := try("free", wrong.kind, wrong.spec); err != nil {
			t.Errorf("without the label: %s %s: %v", wrong.kind, wrong.spec, err)
		}
	}
	for spec, kind := range map[string]string{
		`{"service":"cart","templateRef":{"name":"strict"}}`:                                     "CanaryGate",
		embedded + `,"templateRef":{"name":"strict"}}}}`:                                         "CustomRun",
		`{"customRef":{` + gate + `,"name":"cart"}}`:                                             "CustomRun",
		`{"customRef":{` + gate + `},"params":[{"name":"gate","value":"cart"}]}`:                 "CustomRun",
		`{"customRef":{"apiVersion":"example.com/v1","kind":"Other"}}`:                           "CustomRun",
		`{"customSpec":{"apiVersion":"example.com/v1","kind":"Other","spec":{"anything":true}}}`: "CustomRun",
	} {
		if err := try("shop", kind, spec); err != nil {
			t.Errorf("%s %s: %v", kind, spec, err)
		}
	}
	// What a CustomRun asks for can change later.
	runs := untyped.Resource(customrun.Resource).Namespace("shop")
	other := gateOf(`{"customRef":{"apiVersion":"example.com/v1","kind":"Other"}}`)
	other.SetAPIVersion("tekton.dev/v1beta1")
	other.SetKind("CustomRun")
	other.SetNamespace("shop")
	if other, err = runs.Create(ctx, other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	change := func(patch string) error {
		_, err := runs.Patch(ctx, other.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	if err := change(`{"spec":{"customRef":{` + gate + `},"params":[{"name":"service","value":"cart"}]}}`); err == nil || !strings.Contains(err.Error(), "refer to a CanaryGate") {
		t.Errorf("a CustomRun that names no gate since: %v", err)
	}
	for _, patch := range []string{`{"spec":{"customRef":{` + gate + `,"name":"cart"}}}`, `{"spec":{"status":"RunCancelled"}}`, `{"metadata":{"labels":{"a":"b"}}}`} {
		if err := change(patch); err != nil {
			t.Errorf("%s: %v", patch, err)
		}
	}
	if err := cp.Create(ctx, "config/"+samples+"200-gate.yaml"); err != nil {
		t.Fatal(err)
	}
	// The status has another writer, whose gates may be older than the policy.
	ours, err := client.New(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	made, err := ours.CanaryGates("shop").Get(ctx, "cart", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	template, err := ours.ClusterCanaryGateTemplates().Get(ctx, "strict", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if template.Spec.Schedule != nil || *template.Spec.Minimum.Shards != 3 || *template.Spec.Metrics[1].Weight != 1 {
		t.Errorf("stored: %+v", template.Spec)
	}
	spec, use := made.Spec.With(ctx, template)
	if err := spec.Validate(ctx); err != nil || len(use.Replaced) > 0 || len(spec.Metrics) != 3 || spec.Schedule.Timeout.Duration != time.Hour {
		t.Errorf("%+v, %+v, %v", spec, use, err)
	}
	if _, err := ours.CanaryGates("shop").UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
}

func TestPageShowsTheSamplesOfATemplate(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/gate-templates.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"100-template.yaml", "200-gate.yaml", "300-policy.yaml"} {
		raw, err := os.ReadFile(samples + file)
		if err != nil {
			t.Fatal(err)
		}
		_, document, _ := strings.Cut(string(raw), "apiVersion:")
		document, _, _ = strings.Cut(document, "\n---\n# With Tekton")
		if !strings.Contains(string(page), "apiVersion:"+document) {
			t.Errorf("docs/gate-templates.md does not show %s", file)
		}
	}
}
