// SPDX-License-Identifier: Apache-2.0

package service

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

func facts(t *testing.T, annotations map[string]string) lifecycle.Revision {
	t.Helper()
	r := newRevision()
	for name, v := range annotations {
		r.Annotations[name] = v
	}
	v, ok := transformed(t, r).part.Value.(revisionValue)
	if !ok {
		t.Fatal("not a Revision")
	}
	return *v.Facts
}

func TestRevisionDeclaration(t *testing.T) {
	if f := facts(t, nil); f.Stateful != "" || f.Misdeclared != "" {
		t.Errorf("without a declaration: %+v", f)
	}
	if f := facts(t, map[string]string{v1alpha1.AnnotationRuntime: "pekko"}); f.Stateful != "pekko" ||
		f.Misdeclared != "" {
		t.Errorf("%+v", f)
	}
	f := facts(t, map[string]string{v1alpha1.AnnotationRuntime: "erlang", v1alpha1.AnnotationShards: "many"})
	if f.Stateful != "" || !strings.Contains(f.Misdeclared, "erlang") ||
		!strings.Contains(f.Misdeclared, "; annotation "+v1alpha1.AnnotationShards) {
		t.Errorf("%+v", f)
	}
}

func TestDeclaredServices(t *testing.T) {
	k := &Kind{}
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc,
		cache.Indexers{byRoot: rootIndex, byDeclaration: declarationIndex})
	k.Use([]cache.Indexer{indexer}, nil)
	put := func(obj any) {
		t.Helper()
		s, err := project.transform(obj)
		if err == nil {
			err = indexer.Add(s)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r := newRevision()
	put(r)
	r.Annotations[v1alpha1.AnnotationRuntime] = "akka"
	if put(r); len(k.declared()) != 0 {
		t.Error("a Service that does not exist declares a cluster")
	}
	put(newService())
	key := types.NamespacedName{Namespace: "shop", Name: "cart"}
	if d := k.declared()[key]; d != (Declared{UID: "uid-cart", Stateful: true}) {
		t.Errorf("%+v", d)
	}
	r.Name, r.UID = "cart-00003", "uid-cart-00003"
	r.Labels["serving.knative.dev/configurationGeneration"] = "3"
	r.Annotations[v1alpha1.AnnotationRuntime] = "erlang"
	put(r)
	if d := k.declared()[key]; d != (Declared{UID: "uid-cart", Stateful: true, Wrong: true}) {
		t.Errorf("%+v", d)
	}
}

func TestClusterBelongsToItsService(t *testing.T) {
	svc := transformed(t, newService()).part
	view := &lifecycle.Cluster{Settled: true}
	for owner, want := range map[types.UID]bool{"uid-cart": true, "uid-of-the-previous": false} {
		s := Compose(observer.Parts{
			partService: svc, lifecycle.ObjectCluster: {Name: lifecycle.ObjectCluster, Owner: owner, Value: view},
		})
		if (s.Snapshot.Cluster == view) != want || len(s.Snapshot.Versions) != 1 {
			t.Errorf("owner %s: %+v", owner, s.Snapshot)
		}
	}
}
