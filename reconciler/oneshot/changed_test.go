// SPDX-License-Identifier: Apache-2.0

package oneshot_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ktesting "k8s.io/client-go/testing"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	"knative.dev/serving/pkg/apis/serving"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	servingv1beta1 "knative.dev/serving/pkg/apis/serving/v1beta1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/reconciler/oneshot"
)

// inShop returns an object of the namespace of the cart.
func inShop(name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: cart.Namespace, Name: name, UID: types.UID("uid-" + name), Labels: labels}
}

func domainMapping(name, kind, service string) *servingv1beta1.DomainMapping {
	return &servingv1beta1.DomainMapping{
		ObjectMeta: inShop(name, nil),
		Spec: servingv1beta1.DomainMappingSpec{Ref: duckv1.KReference{
			APIVersion: "serving.knative.dev/v1", Kind: kind, Name: service,
		}},
	}
}

// looked returns the Services that were looked at since then.
func (c *cluster) looked() (names []string) {
	for _, a := range c.serving.Actions() {
		if get, ok := a.(ktesting.GetAction); ok && a.GetResource().Resource == "services" && a.GetVerb() == "get" {
			names = append(names, a.GetNamespace()+"/"+get.GetName())
		}
	}
	c.serving.ClearActions()
	slices.Sort(names)
	return slices.Compact(names)
}

// A changed object has the Services looked at that it may be about.
func TestChanged(t *testing.T) {
	c := newCluster(t, sourceTo("sink"))
	c.deploy()
	c.ask()
	for _, name := range []string{"till", "bin"} {
		must(t, c.serving.Tracker().Add(&servingv1.Service{ObjectMeta: inShop(name, nil)}))
	}
	c.serving.ClearActions()
	const ours = v1alpha1.GroupName + "/v1alpha1"
	ring := func(what, apiVersion, kind, key string, want ...string) {
		t.Helper()
		namespace, name, _ := strings.Cut(key, "/")
		must(t, c.core().Changed(t.Context(), oneshot.Reference{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name}))
		if got := c.looked(); !slices.Equal(got, want) {
			t.Errorf("%s: looked at %q, want %q", what, got, want)
		}
	}
	const v1, v1beta1 = "serving.knative.dev/v1", "serving.knative.dev/v1beta1"
	ring("a Service", v1, "Service", "shop/cart", "shop/cart")
	ring("a Route", v1, "Route", "shop/cart", "shop/cart")
	ring("a Configuration", v1, "Configuration", "shop/cart", "shop/cart")

	ring("a Revision", v1, "Revision", "shop/cart-00001", "shop/cart")
	must(t, c.serving.Tracker().Add(&servingv1.Revision{ObjectMeta: inShop("till-a", map[string]string{serving.ServiceLabelKey: "till"})}))
	ring("a Revision that the ledger does not know", v1, "Revision", "shop/till-a", "shop/till")
	must(t, c.serving.Tracker().Add(&servingv1.Revision{ObjectMeta: inShop("alone-00001", nil)}))
	ring("a Revision without a Service", v1, "Revision", "shop/alone-00001")
	must(t, c.serving.Tracker().Delete(servingv1.SchemeGroupVersion.WithResource("revisions"), "shop", "cart-00001"))
	ring("a deleted Revision", v1, "Revision", "shop/cart-00001", "shop/cart")
	ring("a deleted Revision that was not known", v1, "Revision", "shop/till-00001")

	mappings := servingv1beta1.SchemeGroupVersion.WithResource("domainmappings")
	must(t, c.serving.Tracker().Add(domainMapping("till.example.org", "Service", "till")))
	ring("a DomainMapping", v1beta1, "DomainMapping", "shop/till.example.org", "shop/till")
	must(t, c.serving.Tracker().Add(domainMapping("cart.example.com", "Service", "bin")))
	ring("a DomainMapping whose URL was the cart's", v1beta1, "DomainMapping", "shop/cart.example.com", "shop/bin", "shop/cart")
	must(t, c.serving.Tracker().Delete(mappings, "shop", "cart.example.com"))
	ring("it is deleted", v1beta1, "DomainMapping", "shop/cart.example.com", "shop/cart")
	must(t, c.serving.Tracker().Add(domainMapping("route.example.org", "Route", "till")))
	ring("a DomainMapping of a Route", v1beta1, "DomainMapping", "shop/route.example.org")

	entry := c.entry()
	ring("an entry of the ledger", ours, "CDEventSubject", controllerNamespace+"/"+entry.Name, "shop/cart")
	ring("a deleted entry", ours, "CDEventSubject", controllerNamespace+"/service-uid-bin", "shop/bin")
	ring("a deleted entry of a deleted Service", ours, "CDEventSubject", controllerNamespace+"/service-uid-none")

	must(t, c.serving.Tracker().Delete(servingv1.SchemeGroupVersion.WithResource("services"), "shop", "till"))
	must(t, c.serving.Tracker().Add(&servingv1.Service{ObjectMeta: inShop("new", nil)}))
	ring("a namespace, of which the ledger knows more", "v1", "Namespace", "/shop", "shop/bin", "shop/cart", "shop/new", "shop/till")
	ring("another namespace", "v1", "Namespace", "/other")

	c.resolved = nil
	ring("a source", ours, "CDEventSource", "shop/sink")
	c.resolves("shop/sink of 1")
}

// What cannot be about any Service is refused for good, and what cannot be read for now is not.
func TestChangedInVain(t *testing.T) {
	c := newCluster(t)
	other := &v1alpha1.CDEventSubject{ObjectMeta: metav1.ObjectMeta{Name: "cluster-1"}}
	other.Spec = v1alpha1.CDEventSubjectSpec{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Namespace: "fleet", Name: "prod", UID: "1"}
	_, err := c.store.Create(t.Context(), other, metav1.CreateOptions{})
	must(t, err)
	const ours = v1alpha1.GroupName + "/v1alpha1"
	for want, o := range map[string]oneshot.Reference{
		"nothing follows from a change of Deployment.apps shop/cart; of serving.knative.dev": {APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "cart"},
		"change of Service shop/cart":                             {APIVersion: "v1", Kind: "Service", Namespace: "shop", Name: "cart"},
		"the ledger is in namespace " + controllerNamespace:       {APIVersion: ours, Kind: "CDEventSubject", Namespace: "shop", Name: "service-1"},
		"change of Cluster.cluster.x-k8s.io fleet/prod; it needs": {APIVersion: ours, Kind: "CDEventSubject", Namespace: controllerNamespace, Name: "cluster-1"},
	} {
		err := c.core().Changed(t.Context(), o)
		if never := (*oneshot.NotFollowedError)(nil); !errors.As(err, &never) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", o, err, want)
		}
	}
	away := errors.New("the API server is away")
	c.serving.PrependReactor("*", "*", func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, away })
	for kind, key := range map[string]string{"Revision": "cart-00001", "DomainMapping": "example.com", "Namespace": "shop", "Service": "cart"} {
		o := oneshot.Reference{APIVersion: "serving.knative.dev/v1", Kind: kind, Namespace: "shop", Name: key}
		if kind == "Namespace" {
			o = oneshot.Reference{APIVersion: "v1", Kind: kind, Name: key}
		}
		err := c.core().Changed(t.Context(), o)
		if never := (*oneshot.NotFollowedError)(nil); !errors.Is(err, away) || errors.As(err, &never) {
			t.Errorf("%v: %v", o, err)
		}
	}
}
