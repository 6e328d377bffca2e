// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

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

// choosing is a watch of Clusters that objects of other kinds control.
type choosing struct {
	t       *testing.T
	w       *Watch
	k       *watched
	record  *journal.Record
	ahead   atomic.Int64 // of the clock
	failing atomic.Pointer[string]
}

const platform = "platform.example.com"

// choose begins to watch Clusters, each of which is named like the kind of platform that controls it in lower case, while
// what is at a path cannot be looked up. Version v1 of the platform has kinds PlatformCluster and Folder, and v2 has none.
func choose(t *testing.T, failing string, definitions []string, kinds ...string) *choosing {
	t.Helper()
	c := &choosing{t: t, record: &journal.Record{}}
	c.failing.Store(&failing)
	var clusters []*unstructured.Unstructured
	for _, kind := range kinds {
		name := strings.ToLower(kind)
		clusters = append(clusters, fromYAML(t, "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: "+name+
			", namespace: fleet, uid: uid-"+name+", resourceVersion: '7', creationTimestamp: '2026-05-04T10:00:00Z', ownerReferences: "+
			"[{apiVersion: "+platform+"/v1, kind: "+kind+", name: p, uid: uid-p, controller: true}]}"))
	}
	a := newAPI(append(clusters, fromYAML(t, "apiVersion: "+platform+"/v1\nkind: PlatformCluster\nmetadata: {name: p}"),
		fromYAML(t, "apiVersion: "+platform+"/v1\nkind: Folder\nmetadata: {name: p}"))...)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case *c.failing.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/apis/" + platform:
			v1 := metav1.GroupVersionForDiscovery{GroupVersion: platform + "/v1", Version: "v1"}
			v2 := metav1.GroupVersionForDiscovery{GroupVersion: platform + "/v2", Version: "v2"}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(metav1.APIGroup{
				TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: platform,
				Versions: []metav1.GroupVersionForDiscovery{v2, v1}, PreferredVersion: v2,
			})
		default:
			a.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL}
	registry := observer.NewRegistry()
	c.w = New(t.Context(), Options{
		Shared: observer.Shared{
			Options: observer.Options{
				Ledger: ledger.New(store.New(), c.record, c.record),
				Now:    func() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) },
			},
			Registry: registry, Baselines: observer.NewBaselines(epoch{}), Metadata: metadata.NewForConfigOrDie(config),
			Presence: defining(t, append(definitions, "clusters.cluster.x-k8s.io")...),
		},
		Discovery: discovery.NewDiscoveryClientForConfigOrDie(config), Dynamic: dynamic.NewForConfigOrDie(config),
		Settings: defaults{},
	})
	if err := registry.LeadAll(); err != nil {
		t.Fatal(err)
	}
	if err := c.w.compare(t.Context()); err != nil {
		t.Log(err)
	}
	if c.k = c.w.kinds[clusterKind]; c.k == nil {
		t.Fatal("one group that cannot be looked up keeps the kinds of others from being watched")
	}
	c.k.Start()
	for _, u := range clusters {
		s, err := Transform(nil, false)(u)
		if err != nil {
			t.Fatal(err)
		}
		Handler(c.k.Observer).OnAdd(s, false)
	}
	return c
}

// is folds a Cluster, and checks whether it is announced by then. It returns how soon the Cluster is folded again.
func (c *choosing) is(announced bool, name string) (again time.Duration) {
	c.t.Helper()
	again, err := c.k.Fold(c.t.Context(), types.NamespacedName{Namespace: "fleet", Name: name})
	if err != nil {
		c.t.Fatal(err)
	}
	var want []lifecycle.Type
	if announced {
		want = []lifecycle.Type{lifecycle.ClusterAPIClusterCreated}
	}
	if got := c.record.Of("Cluster/" + name); !slices.Equal(got, want) {
		c.t.Errorf("announced %v of %s, want %v", got, name, want)
	}
	return again
}

// A process begins to watch while it cannot look up one of the chosen kinds. What an object of that kind controls is no
// environment, and what another one of the group controls is.
func TestWhatIsNotKnownToBeChosenIsNotDecided(t *testing.T) {
	t.Parallel()
	c := choose(t, "/apis/"+platform, []string{"platformclusters." + platform}, "PlatformCluster", "Folder")
	for _, name := range []string{"platformcluster", "folder"} {
		if again := c.is(false, name); again < completeAfter-time.Second {
			t.Errorf("asks the API server for %s again after %s", name, again)
		}
	}
	c.failing.Store(new(string))
	if err := c.w.compare(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.is(false, "platformcluster")
	c.is(true, "folder")
}

// An API of a group is dead, and no chosen kind is missing. Nothing waits for it.
func TestDeadVersionOfAGroupStopsNothing(t *testing.T) {
	t.Parallel()
	c := choose(t, "/apis/"+platform+"/v2", []string{"platformclusters." + platform}, "PlatformCluster", "Folder", "Lost")
	for range 2 {
		c.is(false, "platformcluster")
		c.is(true, "folder")
		c.is(true, "lost")
		c.ahead.Add(int64(resolvedFor)) // it is looked up again
		if err := c.w.compare(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.failing.Store(ptr.To("/apis/" + platform + "/v1")) // which has what is chosen, and that is known by now
	}
}

// One version of a group is dead, and another one has the kind that a reference names by group.
func TestDeadVersionOfAGroupHidesNoOther(t *testing.T) {
	t.Parallel()
	c := choose(t, "/apis/"+platform+"/v2", []string{"platformclusters." + platform}, "PlatformCluster")
	at, _, err := c.w.locate(t.Context(), lifecycle.ResourceRef{APIVersion: platform, Kind: "PlatformCluster"})
	if err != nil || at.Version != "v1" {
		t.Errorf("found %v (%v)", at, err)
	}
	if at, _, err := c.w.locate(t.Context(), lifecycle.ResourceRef{APIVersion: platform, Kind: "Elsewhere"}); err == nil {
		t.Errorf("found %v, although the dead version may have the kind", at)
	}
}

// A definition is never served. What may belong to its kind waits, and not for ever.
func TestWhatIsNeverKnownIsDecided(t *testing.T) {
	t.Parallel()
	c := choose(t, "/apis/"+platform+"/v2", []string{"platformclusters." + platform, "ghosts." + platform}, "PlatformCluster", "Folder",
		"Ghost")
	c.is(false, "platformcluster")
	c.is(true, "folder")
	c.is(false, "ghost")
	for range 2 {
		c.ahead.Add(int64(unknownFor / 2))
		if err := c.w.compare(t.Context()); err == nil {
			t.Error("no error of a definition that cannot be looked up")
		}
	}
	c.is(false, "platformcluster")
	c.is(true, "ghost")
}
