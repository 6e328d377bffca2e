// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
)

func TestServerlessRunsWithoutPrivileges(t *testing.T) {
	t.Parallel()
	pod := doorbellDeployment(t).Spec.Template.Spec
	pod.Volumes = nil // the token, which TestServerlessIsWired checks
	checkPrivileges(t, "doorbell", pod)
	checkPrivileges(t, "core", coreService(t).Spec.Template.Spec.PodSpec)
	checkPrivileges(t, "core", inFolder[*appsv1.Deployment](t, serverlessPlain)[0].Spec.Template.Spec)
}

// What the programs may do is as little as their tests in reconciler/oneshot/receiver pass with. The core reads what the
// controller reads, and writes nothing that the controller does not write, but the number of its replicas.
func TestServerlessMayDoLittle(t *testing.T) {
	t.Parallel()
	rules := map[string][]string{}
	add := func(role string, all []rbacv1.PolicyRule) {
		for _, r := range all {
			checkExplicit(t, r)
			rules[role] = append(rules[role], strings.TrimSuffix(fmt.Sprint(r.Verbs, r.Resources, r.ResourceNames), " []"))
		}
	}
	for _, r := range inFolder[*rbacv1.ClusterRole](t, serverless) {
		add("everywhere "+strings.TrimPrefix(r.Name, "knative-cdevents-"), r.Rules)
	}
	for _, r := range inFolder[*rbacv1.Role](t, serverless) {
		add(r.Name, r.Rules)
	}
	want := map[string][]string{
		"everywhere core": {
			"[get list] [services routes revisions domainmappings]", "[get] [namespaces]", "[get list] [customresourcedefinitions]",
			"[get] [endpointslices] [kubernetes]", "[get list] [cdeventsources canarygates]", "[update] [cdeventsources/status]",
			"[get list] [customruns]", "[create] [tokenreviews]",
		},
		"everywhere doorbell": {
			"[list watch] [services routes revisions domainmappings]", "[list watch] [namespaces]", "[list watch] [cdeventsources canarygates]",
			"[list watch] [customruns]",
		},
		"core": {
			"[get list] [configmaps]", "[create delete get list update] [cdeventsubjects]", "[create get update] [cdeventbaselines]",
			"[get list] [canarygateruns shardplacements]", "[get patch] [deployments] [controller]",
		},
		"doorbell":         {"[list watch] [cdeventsubjects]", "[get patch] [leases] [doorbell]"},
		"controller-sleep": {"[get patch] [deployments] [controller]"},
	}
	if fmt.Sprint(rules) != fmt.Sprint(want) {
		t.Errorf("they may\n%v, want\n%v", rules, want)
	}

	bound := map[string]string{}
	for _, b := range inFolder[*rbacv1.ClusterRoleBinding](t, serverless) {
		bound["everywhere "+b.RoleRef.Name] = fmt.Sprint(b.Subjects)
	}
	for _, b := range inFolder[*rbacv1.RoleBinding](t, serverless) {
		bound[b.RoleRef.Name] = fmt.Sprint(b.Subjects)
	}
	to := func(account string) string {
		return fmt.Sprint([]rbacv1.Subject{{Kind: "ServiceAccount", Name: account, Namespace: namespace}})
	}
	if want := map[string]string{
		"everywhere knative-cdevents-core": to("core"), "everywhere knative-cdevents-sinks": to("core"), "everywhere knative-cdevents-doorbell": to("doorbell"),
		"core": to("core"), "doorbell": to("doorbell"), "controller-sleep": to("controller"),
	}; fmt.Sprint(bound) != fmt.Sprint(want) {
		t.Errorf("bound are\n%v, want\n%v", bound, want)
	}
	everywhere, own := rulesOf(t, "controller")
	within(t, "core", inFolder[*rbacv1.ClusterRole](t, serverless)[0].Rules, everywhere, "customruns") // those are in config/tekton
	within(t, "core", inFolder[*rbacv1.Role](t, serverless)[0].Rules, own, "deployments")
}

// within checks that rights are no more than others, apart from one resource.
func within(t *testing.T, who string, rights, others []rbacv1.PolicyRule, but string) {
	t.Helper()
	has := map[string]bool{}
	for _, r := range others {
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					has[verb+" "+group+"/"+resource] = true
				}
			}
		}
	}
	for _, r := range rights {
		for _, resource := range r.Resources {
			for _, verb := range r.Verbs {
				if !has[verb+" "+r.APIGroups[0]+"/"+resource] && resource != but {
					t.Errorf("%s may %s %s, and the controller may not", who, verb, resource)
				}
			}
		}
	}
}

// TestSleepingChangesNothingElse shows that who may put the controller to sleep, may not run something else in its place.
func TestSleepingChangesNothingElse(t *testing.T) {
	cp, ctx := controlplane.Start(t), t.Context()
	if err := cp.InstallServing(ctx); err != nil {
		t.Fatal(err)
	}
	if err := cp.Create(ctx, "config/100-namespace.yaml", "config/500-controller.yaml", "config/optional/serverless/200-roles.yaml"); err != nil {
		t.Fatal(err)
	}
	admin, err := kubernetes.NewForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.AppsV1().Deployments(namespace).Patch(ctx, "controller", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"theirs":"kept"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, account := range []string{"core", "controller"} {
		as := cp.As("system:serviceaccount:"+namespace+":"+account, "system:serviceaccounts")
		as.WarningHandler = rest.NoWarnings{}
		kube, err := kubernetes.NewForConfig(as)
		if err != nil {
			t.Fatal(err)
		}
		patch := func(text string) error {
			_, err := kube.AppsV1().Deployments(namespace).Patch(ctx, "controller", types.MergePatchType, []byte(text), metav1.PatchOptions{})
			return err
		}
		image := func(tag int) string {
			return fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"controller","image":"example.com/other:%d"}]}}}}`, tag)
		}
		tag := 0
		for ; tag < 300 && patch(image(tag)) == nil; tag++ { // the API server reads policies after a moment
			time.Sleep(100 * time.Millisecond)
		}
		for what, text := range map[string]string{
			"an image": image(tag), "a label of pods": `{"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}}`,
			"a label": `{"metadata":{"labels":{"a":"b"}}}`, "a finalizer": `{"metadata":{"finalizers":["example.com/a"]}}`,
			"the strategy": `{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}`,
			// A rollout that an administrator begins would never be done.
			"a pause": `{"spec":{"paused":true}}`, "a delay": `{"spec":{"minReadySeconds":7}}`,
			"a deadline": `{"spec":{"progressDeadlineSeconds":500}}`, "the history": `{"spec":{"revisionHistoryLimit":0}}`,
			// Kubernetes' own controller takes the pods of an earlier revision then, with an image that has been replaced.
			"a rollback":            `{"metadata":{"annotations":{"deprecated.deployment.rollback.to":"1"}}}`,
			"another's annotation":  `{"metadata":{"annotations":{"theirs":"other"}}}`,
			"no annotation":         `{"metadata":{"annotations":{"theirs":null}}}`,
			"the last applied spec": `{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"}}}`,
		} {
			if err := patch(text); err == nil || !strings.Contains(err.Error(), "only the replicas and their own annotations") {
				t.Errorf("%s sets %s: %v", account, what, err)
			}
		}
		for _, subresource := range []string{"scale", "status"} {
			_, err := kube.AppsV1().Deployments(namespace).Patch(ctx, "controller", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}, subresource)
			if !apierrors.IsForbidden(err) {
				t.Errorf("%s patches the %s: %v", account, subresource, err)
			}
		}
		force := metav1.PatchOptions{FieldManager: account, Force: ptr.To(true)}
		for kind, text := range map[types.PatchType]string{
			types.JSONPatchType:           `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"example.com/other"}]`,
			types.StrategicMergePatchType: image(tag),
			types.ApplyPatchType:          `{"apiVersion":"apps/v1","kind":"Deployment",` + image(tag)[1:],
		} {
			opts := metav1.PatchOptions{}
			if kind == types.ApplyPatchType {
				opts = force
			}
			_, err := kube.AppsV1().Deployments(namespace).Patch(ctx, "controller", kind, []byte(text), opts)
			if err == nil || !strings.Contains(err.Error(), "only the replicas and their own annotations") {
				t.Errorf("%s sets an image by %s: %v", account, kind, err)
			}
		}
		if err := patch(`{"metadata":{"annotations":{"knative-cdevents.dev/awake":"asleep"}},"spec":{"replicas":0}}`); err != nil {
			t.Errorf("%s cannot put the controller to sleep: %v", account, err)
		}
	}
}
