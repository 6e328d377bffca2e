// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// operator creates a source in the controller's namespace, which receives the events of cluster-scoped objects.
func (p platform) operator() {
	p.Helper()
	source := &v1alpha1.CDEventSource{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.SourceKind.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: kit.Namespace, Name: p.ns},
	}
	source.Spec.Sink = uri("http://sink." + p.ns + ".svc.cluster.local/operator")
	sources := suite.Ours.CDEventSources(kit.Namespace)
	_, err := sources.Create(p.Context(), source, metav1.CreateOptions{})
	p.must(err)
	p.Cleanup(func() {
		if err := sources.Delete(context.WithoutCancel(p.Context()), p.ns, metav1.DeleteOptions{}); err != nil {
			p.Error(err)
		}
	})
	own := *p.scene
	own.ns = kit.Namespace
	own.waitSource(p.ns)
}

// install installs Crossplane, if it is not there, and the kinds of the test. At the end, whatever happened, it removes
// what it installed, and lets everything go that the test kept in existence.
func (p platform) install() {
	p.Helper()
	installed, err := suite.Environments.HasCrossplane(p.Context())
	p.must(err)
	nops := []schema.GroupVersionResource{kit.NopResources, kit.ClusterNopResources}
	p.Cleanup(func() {
		ctx := context.WithoutCancel(p.Context())
		for _, of := range nops {
			if err := letGo(ctx, of, ""); err != nil {
				p.Error(err)
			}
		}
		// The kinds end while Crossplane runs: it has finalizers on their objects.
		if err := suite.Environments.RemoveCrossplaneKinds(ctx); err != nil {
			p.Error(err)
		}
		if err := suite.LabelCRDs(ctx, kit.EnvironmentLabel, "", nops...); err != nil {
			p.Error(err)
		}
		if installed {
			return
		}
		if err := suite.Environments.RemoveCrossplane(ctx); err != nil {
			p.Error(err)
		}
	})
	p.must(suite.Environments.InstallCrossplane(p.Context()))
	p.must(suite.Environments.InstallCrossplaneKinds(p.Context()))
	// What a composite consists of is of a chosen kind too, and is not announced beside it.
	p.must(suite.LabelCRDs(p.Context(), kit.EnvironmentLabel, "true", nops...))
	// What is older than the first look at its kind is not announced.
	for _, kind := range []string{"clusterclaim", "compositecluster", "teamcluster", "fleetcluster"} {
		p.readable(kind + "." + kit.TeamClusters.Group)
	}
	p.readable("nopresource." + kit.NopResources.Group)
	p.readable("clusternopresource." + kit.NopResources.Group)
}

// beneath is the kind of the resources that a family's clusters consist of.
func (f family) beneath() schema.GroupVersionResource {
	if f == ofTeam {
		return kit.NopResources
	}
	return kit.ClusterNopResources
}

// exactly waits for the events of an environment, and fails if more arrive. Those of cluster-scoped ones go to the
// operator's source only.
func (p platform) exactly(f family, name string, types []string) []event {
	p.Helper()
	path := "/operator"
	if f.namespaced {
		path = "/"
	}
	return p.sink.exactly(p.T, types, at(path), ofEnvironment(name))
}

func (p platform) declare(f family, name string, spec map[string]any) {
	p.Helper()
	p.submit(f, kit.NewObject(f.resource, f.kind, f.in(p.ns), name, spec))
}

func (p platform) submit(f family, o *unstructured.Unstructured) {
	p.Helper()
	_, err := suite.Dynamic.Resource(f.resource).Namespace(f.in(p.ns)).Create(p.Context(), o, metav1.CreateOptions{})
	p.must(err)
}

func (p platform) get(f family, name string) *unstructured.Unstructured {
	p.Helper()
	o, err := suite.Dynamic.Resource(f.resource).Namespace(f.in(p.ns)).Get(p.Context(), name, metav1.GetOptions{})
	p.must(err)
	return o
}

func (p platform) patch(f family, name, patch string) {
	p.Helper()
	p.must(suite.Merge(p.Context(), f.resource, f.in(p.ns), name, patch))
}

// annotate sets an annotation; an empty value removes it.
func (p platform) annotate(f family, name, key, value string) {
	p.Helper()
	var v any = value
	if value == "" {
		v = nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: v}}})
	p.must(err)
	p.patch(f, name, string(patch))
}

func (p platform) conditioned(f family, condition, status string) {
	p.Helper()
	p.must(suite.WaitCondition(p.Context(), f.resource, f.in(p.ns), f.name, condition, status, time.Minute))
}

func (p platform) delete(f family, name string) {
	p.Helper()
	err := suite.Dynamic.Resource(f.resource).Namespace(f.in(p.ns)).Delete(p.Context(), name, metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		p.must(err)
	}
}

// composed returns the resources that a cluster consists of.
func (p platform) composed(f family, name string) []unstructured.Unstructured {
	p.Helper()
	composite, ns := name, f.in(p.ns)
	if f == claimed {
		composite, _, _ = unstructured.NestedString(p.get(f, name).Object, "spec", "resourceRef", "name") // none is found without
		ns = ""
	}
	all, err := suite.Environments.Composed(p.Context(), f.beneath(), ns, composite)
	p.must(err)
	if len(all) == 0 {
		p.Fatalf("%s consists of nothing", name)
	}
	return all
}

// held is the finalizer that keeps resources in existence after their deletion, as a slow provider does.
const held = "example.com/held"

func (p platform) hold(f family) {
	p.Helper()
	for _, o := range p.composed(f, f.name) {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": append(o.GetFinalizers(), held)}})
		p.must(err)
		p.must(suite.Merge(p.Context(), f.beneath(), o.GetNamespace(), o.GetName(), string(patch)))
	}
}

// release lets the resources of the family's cluster go that hold kept.
func (p platform) release(f family) {
	p.Helper()
	p.must(letGo(p.Context(), f.beneath(), f.name))
}

// letGo removes our finalizer from all resources whose names have the prefix.
func letGo(ctx context.Context, of schema.GroupVersionResource, prefix string) error {
	list, err := suite.Dynamic.Resource(of).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, o := range list.Items {
		finalizers := o.GetFinalizers()
		if !slices.Contains(finalizers, held) || !strings.HasPrefix(o.GetName(), prefix) {
			continue
		}
		finalizers = slices.DeleteFunc(finalizers, func(f string) bool { return f == held })
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
		if err != nil {
			return err
		}
		if err := suite.Merge(ctx, of, o.GetNamespace(), o.GetName(), string(patch)); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
