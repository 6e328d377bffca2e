// SPDX-License-Identifier: Apache-2.0

package awake

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	"knative.dev/serving/pkg/apis/serving"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	"knative.dev/serving/pkg/client/clientset/versioned"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/reconciler/environment"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate/customrun"
	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
)

const system = "knative-cdevents"

var cart = types.NamespacedName{Namespace: "shop", Name: "cart"}

// rule is a shorter rbacv1.PolicyRule.
func rule(group, resources string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: strings.Split(resources, ","), Verbs: verbs}
}

// ofController names the Deployment of the controller.
func ofController(verbs ...string) rbacv1.PolicyRule {
	r := rule("apps", "deployments", verbs...)
	r.ResourceNames = []string{controller}
	return r
}

// The rights that this package needs: everywhere, and in our namespace. The right to read CustomRuns is optional.
var (
	toAsk = []rbacv1.PolicyRule{
		rule("serving.knative.dev", "routes", "get"),
		rule("serving.knative.dev", "revisions", "list"),
		rule("knative-cdevents.dev", "canarygates", "get", "list"),
		rule("apiextensions.k8s.io", "customresourcedefinitions", "list"),
	}
	toAskTekton = rule("tekton.dev", "customruns", "get", "list")
	inOurs      = map[string][]rbacv1.PolicyRule{
		"core": {
			rule("knative-cdevents.dev", "canarygateruns,shardplacements", "get", "list"),
			ofController("get", "patch"),
		},
		"controller": {
			rule("knative-cdevents.dev", "canarygateruns,shardplacements", "list"),
			rule("coordination.k8s.io", "leases", "get"),
			ofController("get", "patch"),
		},
	}
)

// world is a real API server.
type world struct {
	*controlplane.ControlPlane
	t       *testing.T
	kube    kubernetes.Interface
	ours    *client.Clientset
	serving versioned.Interface
	objects dynamic.Interface
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	cp := controlplane.Start(t)
	ok(t, cp.InstallServing(t.Context()))
	w := &world{
		ControlPlane: cp, t: t, kube: must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(cp.Config())),
		ours:    must[*client.Clientset](t)(client.New(cp.Config())),
		serving: must[*versioned.Clientset](t)(versioned.NewForConfig(cp.Config())),
		objects: must[*dynamic.DynamicClient](t)(dynamic.NewForConfig(cp.Config())),
	}
	for _, ns := range []string{system, cart.Namespace} {
		must[*corev1.Namespace](t)(w.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{}))
	}
	rbac := w.kube.RbacV1()
	for name, rules := range inOurs {
		meta, who := metav1.ObjectMeta{Name: name}, []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: system, Name: name}}
		must[*rbacv1.Role](t)(rbac.Roles(system).Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}))
		must[*rbacv1.RoleBinding](t)(rbac.RoleBindings(system).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: meta, Subjects: who, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		}, metav1.CreateOptions{}))
		must[*rbacv1.ClusterRole](t)(rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: toAsk}, metav1.CreateOptions{}))
		must[*rbacv1.ClusterRoleBinding](t)(rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, Subjects: who, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		}, metav1.CreateOptions{}))
	}
	return w
}

// allowTekton gives the optional right.
func (w *world) allowTekton() {
	w.t.Helper()
	for name := range inOurs {
		role := must[*rbacv1.ClusterRole](w.t)(w.kube.RbacV1().ClusterRoles().Get(w.t.Context(), name, metav1.GetOptions{}))
		role.Rules = append(role.Rules, toAskTekton)
		must[*rbacv1.ClusterRole](w.t)(w.kube.RbacV1().ClusterRoles().Update(w.t.Context(), role, metav1.UpdateOptions{}))
	}
}

// as connects as the core or the controller, with no rights but those.
func (w *world) as(name string) *rest.Config {
	return w.As("system:serviceaccount:"+system+":"+name, "system:serviceaccounts")
}

func (w *world) rule(name string) *Rule {
	w.t.Helper()
	return must[*Rule](w.t)(NewRule(w.as(name), system, func() []schema.GroupKind {
		return []schema.GroupKind{{Group: "cluster.x-k8s.io", Kind: "Cluster"}}
	}))
}

func (w *world) deployment(name string) *Deployment {
	w.t.Helper()
	kube := must[*kubernetes.Clientset](w.t)(kubernetes.NewForConfig(w.as(name)))
	return &Deployment{Client: kube.AppsV1().Deployments(system), Now: time.Now}
}

// install creates the Deployment of the controller.
func (w *world) install(replicas int32) {
	w.t.Helper()
	labels := map[string]string{"app": "controller"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: controller}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "controller", Image: "controller"}},
		}},
	}}
	must[*appsv1.Deployment](w.t)(w.kube.AppsV1().Deployments(system).Create(w.t.Context(), d, metav1.CreateOptions{}))
}

// state returns the replicas and the annotations.
func (w *world) state() (int32, map[string]string) {
	w.t.Helper()
	d := must[*appsv1.Deployment](w.t)(w.kube.AppsV1().Deployments(system).Get(w.t.Context(), controller, metav1.GetOptions{}))
	return *d.Spec.Replicas, d.Annotations
}

// scale does what a user does with kubectl.
func (w *world) scale(replicas int32, annotations map[string]string) {
	w.t.Helper()
	d := must[*appsv1.Deployment](w.t)(w.kube.AppsV1().Deployments(system).Get(w.t.Context(), controller, metav1.GetOptions{}))
	d.Spec.Replicas, d.Annotations = &replicas, annotations
	must[*appsv1.Deployment](w.t)(w.kube.AppsV1().Deployments(system).Update(w.t.Context(), d, metav1.UpdateOptions{}))
}

// hold has a doorbell hold its Lease until a time; zero: nobody holds it.
func (w *world) hold(until time.Time) {
	w.t.Helper()
	leases, name := w.kube.CoordinationV1().Leases(system), "doorbell"
	_ = leases.Delete(w.t.Context(), name, metav1.DeleteOptions{}) // it need not exist
	holder, seconds, at := "doorbell-0", int32(60), metav1.NewMicroTime(until.Add(-time.Minute))
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &at,
	}}
	if until.IsZero() {
		*l.Spec.HolderIdentity = ""
	}
	must[*coordinationv1.Lease](w.t)(leases.Create(w.t.Context(), l, metav1.CreateOptions{}))
}

func (w *world) gate(name, service string) *v1alpha1.CanaryGate {
	w.t.Helper()
	g := &v1alpha1.CanaryGate{ObjectMeta: metav1.ObjectMeta{Namespace: cart.Namespace, Name: name}, Spec: v1alpha1.CanaryGateSpec{Service: service}}
	return must[*v1alpha1.CanaryGate](w.t)(w.ours.CanaryGates(cart.Namespace).Create(w.t.Context(), g, metav1.CreateOptions{}))
}

func (w *world) revision(name string) {
	w.t.Helper()
	r := &servingv1.Revision{ObjectMeta: metav1.ObjectMeta{Namespace: cart.Namespace, Name: name, Labels: map[string]string{serving.ServiceLabelKey: cart.Name}}}
	r.Spec.Containers = []corev1.Container{{Name: "app", Image: "registry/app"}}
	must[*servingv1.Revision](w.t)(w.serving.ServingV1().Revisions(cart.Namespace).Create(w.t.Context(), r, metav1.CreateOptions{}))
}

// route divides the traffic of the cart. The split need not be in effect.
func (w *world) route(effective bool, split map[string]int64) {
	w.t.Helper()
	ctx, routes := w.t.Context(), w.serving.ServingV1().Routes(cart.Namespace)
	r, err := routes.Get(ctx, cart.Name, metav1.GetOptions{})
	if err != nil {
		r = must[*servingv1.Route](w.t)(routes.Create(ctx, &servingv1.Route{ObjectMeta: metav1.ObjectMeta{Namespace: cart.Namespace, Name: cart.Name}}, metav1.CreateOptions{}))
	}
	latest, status := false, corev1.ConditionUnknown
	if effective {
		status = corev1.ConditionTrue
	}
	r.Status.ObservedGeneration, r.Status.Traffic = r.Generation, nil
	r.Status.Conditions = duckv1.Conditions{{Type: apis.ConditionReady, Status: status}}
	for name, percent := range split {
		r.Status.Traffic = append(r.Status.Traffic, servingv1.TrafficTarget{RevisionName: name, Percent: &percent, LatestRevision: &latest})
	}
	must[*servingv1.Route](w.t)(routes.UpdateStatus(ctx, r, metav1.UpdateOptions{}))
}

// run stores a run of a gate, as the controller does.
func (w *world) run(name string) {
	w.t.Helper()
	r := &v1alpha1.CanaryGateRun{
		ObjectMeta: metav1.ObjectMeta{Name: "canarygate-" + name}, Spec: v1alpha1.CanaryGateRunSpec{Kind: "CanaryGate", Namespace: cart.Namespace, Name: name, UID: "1"},
	}
	r.AnnotateOwner()
	must[*v1alpha1.CanaryGateRun](w.t)(w.ours.CanaryGateRuns(system).Create(w.t.Context(), r, metav1.CreateOptions{}))
}

func (w *world) place(name string) {
	w.t.Helper()
	p := &v1alpha1.ShardPlacement{
		ObjectMeta: metav1.ObjectMeta{Name: "service-" + name}, Spec: v1alpha1.ShardPlacementSpec{Namespace: cart.Namespace, Service: name, UID: "1"},
	}
	must[*v1alpha1.ShardPlacement](w.t)(w.ours.ShardPlacements(system).Create(w.t.Context(), p, metav1.CreateOptions{}))
}

// customRun creates one that refers to a kind.
func (w *world) customRun(name, apiVersion string) {
	w.t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "tekton.dev/v1beta1", "kind": "CustomRun", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"customRef": map[string]any{"apiVersion": apiVersion, "kind": "CanaryGate", "name": "cart"}},
	}}
	must[*unstructured.Unstructured](w.t)(w.objects.Resource(customrun.Resource).Namespace(cart.Namespace).Create(w.t.Context(), u, metav1.CreateOptions{}))
}

// finish completes a CustomRun.
func (w *world) finish(name string) {
	w.t.Helper()
	runs := w.objects.Resource(customrun.Resource).Namespace(cart.Namespace)
	u := must[*unstructured.Unstructured](w.t)(runs.Get(w.t.Context(), name, metav1.GetOptions{}))
	ok(w.t, unstructured.SetNestedField(u.Object, time.Now().UTC().Format(time.RFC3339), "status", "completionTime"))
	must[*unstructured.Unstructured](w.t)(runs.UpdateStatus(w.t.Context(), u, metav1.UpdateOptions{}))
}

// define installs a kind, which may have the label of environments.
func (w *world) define(kind, plural, group string, labelled bool) (remove func()) {
	w.t.Helper()
	yes := true
	c := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group}, Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: group, Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, Plural: plural, Singular: strings.ToLower(kind)},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
			OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &yes},
		}}},
	}}
	if labelled {
		c.Labels = map[string]string{environment.Label: "true"}
	}
	definitions := must[*apiextensions.Clientset](w.t)(apiextensions.NewForConfig(w.Config())).ApiextensionsV1().CustomResourceDefinitions()
	must[*apiextensionsv1.CustomResourceDefinition](w.t)(definitions.Create(w.t.Context(), c, metav1.CreateOptions{}))
	return func() { ok(w.t, definitions.Delete(w.t.Context(), c.Name, metav1.DeleteOptions{})) }
}

// eventually waits for something that takes some time.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for until := time.Now().Add(time.Minute); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("waited a minute until %s", what)
		}
	}
}
