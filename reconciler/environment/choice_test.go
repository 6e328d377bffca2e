// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	"github.com/knative-cdevents/knative-cdevents/test/journal"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// epoch is a baseline before all objects.
type epoch struct{}

func (epoch) Since(context.Context, string) (time.Time, error) { return time.Unix(0, 0), nil }

// defining returns what knows of these definitions, which a label chooses.
func defining(t *testing.T, names ...string) *observer.Presence {
	t.Helper()
	var definitions []runtime.Object
	for _, name := range names {
		definitions = append(definitions, &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: observer.Definitions.GroupVersion().String(), Kind: "CustomResourceDefinition"},
			ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1", Labels: map[string]string{Label: "true"}},
		})
	}
	scheme := fake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	p, err := observer.NewPresence(fake.NewSimpleMetadataClient(scheme, definitions...), Label)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	go p.Run(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), p.Synced) {
		t.Fatal("the definitions are not known")
	}
	return p
}

// A process begins to watch while it cannot look up one of the chosen kinds. What an object of that kind controls is no
// environment, and what another one of the group controls is.
func TestWhatIsNotKnownToBeChosenIsNotDecided(t *testing.T) {
	t.Parallel()
	owned := func(name, kind string) string {
		return "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: " + name + ", namespace: fleet, uid: uid-" + name +
			", resourceVersion: '7', creationTimestamp: '2026-05-04T10:00:00Z', ownerReferences: " +
			"[{apiVersion: platform.example.com/v1, kind: " + kind + ", name: p, uid: uid-p, controller: true}]}"
	}
	child, free := fromYAML(t, owned("child", "PlatformCluster")), fromYAML(t, owned("free", "Folder"))
	a := newAPI(child, free, fromYAML(t, "apiVersion: platform.example.com/v1\nkind: PlatformCluster\nmetadata: {name: p}"),
		fromYAML(t, "apiVersion: platform.example.com/v1\nkind: Folder\nmetadata: {name: p}"))
	var failing atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if failing.Load() && r.URL.Path == "/apis/platform.example.com" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		a.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL}
	record := &journal.Record{}
	registry := observer.NewRegistry()
	w := New(t.Context(), Options{
		Shared: observer.Shared{
			Options:  observer.Options{Ledger: ledger.New(store.New(), record, record), Now: time.Now},
			Registry: registry, Baselines: observer.NewBaselines(epoch{}), Metadata: metadata.NewForConfigOrDie(config),
			Presence: defining(t, "clusters.cluster.x-k8s.io", "platformclusters.platform.example.com"),
		},
		Discovery: discovery.NewDiscoveryClientForConfigOrDie(config), Dynamic: dynamic.NewForConfigOrDie(config),
		Settings: defaults{},
	})
	if err := registry.LeadAll(); err != nil {
		t.Fatal(err)
	}
	failing.Store(true)
	if err := w.compare(t.Context()); err == nil {
		t.Fatal("no error of a group that cannot be looked up")
	}
	k := w.kinds[clusterKind]
	if k == nil {
		t.Fatal("one group that cannot be looked up keeps the kinds of others from being watched")
	}
	k.Start()
	fold := func() {
		t.Helper()
		for _, name := range []string{"child", "free"} {
			if _, err := k.Fold(t.Context(), types.NamespacedName{Namespace: "fleet", Name: name}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, u := range []any{child, free} {
		s, err := Transform(nil, false)(u)
		if err != nil {
			t.Fatal(err)
		}
		Handler(k.Observer).OnAdd(s, false)
	}
	fold()
	if got := append(record.Of("Cluster/child"), record.Of("Cluster/free")...); len(got) > 0 {
		t.Errorf("announced %v before it was known what is chosen", got)
	}
	failing.Store(false)
	if err := w.compare(t.Context()); err != nil {
		t.Fatal(err)
	}
	fold()
	if got := record.Of("Cluster/child"); len(got) > 0 {
		t.Errorf("%v of what a watched object controls", got)
	}
	if got, want := record.Of("Cluster/free"), []lifecycle.Type{lifecycle.ClusterAPIClusterCreated}; !slices.Equal(got, want) {
		t.Errorf("%v of what an object that is not watched controls, want %v", got, want)
	}
}
