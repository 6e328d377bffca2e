// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"context"
	"strings"
	"testing"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/fleet"
)

// rights runs the commands as users who have nothing but the roles that the installation offers them.
func (f *fleetOf) rights(t *testing.T) {
	f.OfferRoles(t)
	f.Bind(t, fleet.Shop, fleet.ServingView, "tess", "olga")
	f.Bind(t, fleet.Shop, "knative-cdevents-view", "tess", "olga")
	f.Bind(t, fleet.System, "knative-cdevents-ledger-view", "olga")
	tess, olga, nemo := kubeconfig(t, f.ControlPlane, "tess"), kubeconfig(t, f.ControlPlane, "olga"), kubeconfig(t, f.ControlPlane, "nemo")
	f.allowed(t, olga, "history", "cart", "-n", "shop")

	run(t, tess, "", "list", "-n", "shop").golden(t, "rights-list")
	run(t, tess, "", "why", "cart", "-n", "shop").golden(t, "rights-why")
	run(t, tess, "", "gate", "cart", "-n", "shop").golden(t, "rights-gate")
	got := run(t, tess, "", "history", "cart", "-n", "shop")
	got.errors(t, "")
	if !strings.Contains(got.out, "gate cart-gate began to judge cart-00002") || !strings.Contains(got.err, "you may not get cdeventsubjects") {
		t.Errorf("without the ledger, history printed %s%s", got.out, got.err)
	}
	for args, want := range map[string]string{
		"why service/bygone": `there is no service "bygone" in namespace shop; the ledger is not looked at: you may not list cdeventsubjects`,
		"why nope":           `there is no source, Service or gate "nope" in namespace shop; the ledger is not looked at: you may not list`,
		"history bygone":     `there is no Knative Service "bygone" in namespace shop; the ledger is not looked at: you may not list`,
		"watch bygone":       `there is no Knative Service "bygone" in namespace shop; the ledger is not looked at: you may not list`,
	} {
		run(t, tess, "", append(strings.Fields(args), "-n", "shop")...).errors(t, want)
	}
	run(t, tess, "", "compare", "-n", "shop").errors(t, "you may not list canarygateruns.knative-cdevents.dev in namespace knative-cdevents; ask an operator for ClusterRole knative-cdevents-ledger-view in namespace knative-cdevents")
	f.allowed(t, olga, "compare", "-n", "shop")
	for _, args := range []string{"list -n shop", "list -A", "why -n shop", "gate cart -n shop", "history cart -n shop", "watch -n shop"} {
		run(t, nemo, "", strings.Fields(args)...).errors(t, "you may not ")
	}
}

// allowed waits until the API server has noticed the bindings.
func (f *fleetOf) allowed(t *testing.T, config string, args ...string) {
	t.Helper()
	var got result
	for range 100 {
		if got = run(t, config, "", args...); got.failed == nil && !strings.Contains(got.err, "you may not") {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("%v as olga: %v, %s", args, got.failed, got.err)
}

// watch lets things happen and compares the lines.
func (f *fleetOf) watch(t *testing.T, config string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	lines := &shared{}
	done := make(chan result, 1)
	go func() { done <- runTo(ctx, lines, config, "watch", "cart", "-n", "shop") }()
	lines.waitFor(t, "watching Service cart in namespace shop")

	cart := fleet.Must[*v1alpha1.CDEventSubject](t)(f.subject(t, "cart"))
	cart.Status.Acknowledged[f.sources["staging"]] = 7
	fleet.Must[*v1alpha1.CDEventSubject](t)(f.Events.CDEventSubjects(fleet.System).Update(t.Context(), cart, metav1.UpdateOptions{}))
	lines.waitFor(t, "12:00:00  cart  told  staging has all up to event 7\n")

	gate := fleet.Must[*v1alpha1.CanaryGate](t)(f.Events.CanaryGates(fleet.Shop).Get(t.Context(), "cart-gate", metav1.GetOptions{}))
	gate.Status.Latest.Verdict, gate.Status.Latest.Reasons = "Pass", []string{"NonInferior"}
	fleet.Must[*v1alpha1.CanaryGate](t)(f.Events.CanaryGates(fleet.Shop).UpdateStatus(t.Context(), gate, metav1.UpdateOptions{}))
	lines.waitFor(t, "12:00:00  cart  gate cart-gate  cart-00002: Pass (NonInferior)\n")

	cancel()
	if r := <-done; r.failed != nil {
		t.Errorf("watch failed: %v", r.failed)
	}
}

func (f *fleetOf) subject(t *testing.T, name string) (*v1alpha1.CDEventSubject, error) {
	t.Helper()
	all, err := f.Events.CDEventSubjects(fleet.System).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range all.Items {
		if all.Items[i].Spec.Name == name {
			return &all.Items[i], nil
		}
	}
	return nil, apierrors.NewNotFound(v1alpha1.SubjectResource.GroupResource(), name)
}

// uninstall deletes the CRDs of this project.
func (f *fleetOf) uninstall(t *testing.T) {
	t.Helper()
	api := fleet.Must[*apiextensions.Clientset](t)(apiextensions.NewForConfig(f.Config()))
	for _, of := range []string{"cdeventsources", "cdeventsubjects", "canarygates", "canarygateruns", "shardplacements"} {
		if err := api.ApiextensionsV1().CustomResourceDefinitions().Delete(t.Context(), of+".knative-cdevents.dev", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for range 300 {
		_, err := f.Events.CDEventSources(fleet.Shop).List(t.Context(), metav1.ListOptions{})
		_, also := f.Events.CanaryGates(fleet.Shop).List(t.Context(), metav1.ListOptions{})
		_, last := f.Events.CDEventSubjects(fleet.System).List(t.Context(), metav1.ListOptions{})
		if apierrors.IsNotFound(err) && apierrors.IsNotFound(also) && apierrors.IsNotFound(last) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("the CRDs are still served")
}
