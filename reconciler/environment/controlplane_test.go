// SPDX-License-Identifier: Apache-2.0

package environment_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/environment"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
	"github.com/knative-cdevents/knative-cdevents/test/journal"
)

// stage is an API server with the watch of environments.
type stage struct {
	*testing.T
	ctx         context.Context
	plane       *controlplane.ControlPlane
	definitions apiextensions.Interface
	objects     dynamic.Interface
	kube        kubernetes.Interface
	events      *journal.Record
	clients     *client.Clientset
	ns          string

	mu     sync.Mutex
	chosen []schema.GroupKind
	rules  lifecycle.Rules
	watch  *environment.Watch
	stop   context.CancelFunc
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newStage(t *testing.T) *stage {
	t.Helper()
	plane := controlplane.Start(t)
	cfg := plane.Config()
	s := &stage{
		T: t, ctx: t.Context(), plane: plane, events: &journal.Record{}, ns: "fleet",
		rules: lifecycle.DefaultRules,
	}
	s.definitions, s.objects, s.kube = apiextensions.NewForConfigOrDie(cfg), dynamic.NewForConfigOrDie(cfg),
		kubernetes.NewForConfigOrDie(cfg)
	var err error
	s.clients, err = client.New(cfg)
	must(t, err)
	_, err = s.kube.CoreV1().Namespaces().Create(s.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.ns}},
		metav1.CreateOptions{})
	must(t, err)
	return s
}

// start starts the watch as a user who may read environments only as far as it is allowed.
func (s *stage) start() {
	s.Helper()
	ctx, stop := context.WithCancel(s.ctx)
	s.stop = stop
	cfg := s.plane.As("environments", "system:authenticated")
	admin := s.plane.Config()
	presence, err := observer.NewPresence(metadata.NewForConfigOrDie(admin), environment.Label)
	must(s.T, err)
	go presence.Run(ctx)
	l := ledger.New(s.clients.CDEventSubjects("default"), s.events, s.events)
	baselines := ledger.Baselines{Client: s.clients.CDEventBaselines("default")}
	subjects := client.NewSubjectInformer(s.clients, "default", 0, nil)
	registration, err := subjects.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if e, ok := o.(*v1alpha1.CDEventSubject); ok {
				l.Observe(e)
			}
		},
		UpdateFunc: func(_, o any) {
			if e, ok := o.(*v1alpha1.CDEventSubject); ok {
				l.Observe(e)
			}
		},
	})
	must(s.T, err)
	go subjects.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		s.Fatal("the ledger is not complete")
	}
	registry := observer.NewRegistry()
	s.watch = environment.New(ctx, environment.Options{
		Shared: observer.Shared{
			Options: observer.Options{Ledger: l, Now: time.Now}, Registry: registry, Baselines: observer.NewBaselines(baselines),
			Presence: presence, Metadata: metadata.NewForConfigOrDie(cfg),
		},
		Discovery: discovery.NewDiscoveryClientForConfigOrDie(admin), Dynamic: dynamic.NewForConfigOrDie(cfg), Settings: s,
		Markers: baselines,
	})
	must(s.T, registry.LeadAll())
	registry.Start(ctx, &sync.WaitGroup{}, s.watch)
	s.Cleanup(stop)
}

// Rules and EnvironmentKinds implement environment.Settings.
func (s *stage) Rules() lifecycle.Rules { s.mu.Lock(); defer s.mu.Unlock(); return s.rules }

// EnvironmentKinds implements environment.Settings.
func (s *stage) EnvironmentKinds() []schema.GroupKind {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chosen
}

func (s *stage) allow() {
	s.Helper()
	_, err := s.kube.RbacV1().ClusterRoles().Create(s.ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "environments"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"*"}, Resources: []string{"*"},
			Verbs: []string{"get", "list", "watch"},
		}},
	}, metav1.CreateOptions{})
	must(s.T, err)
	_, err = s.kube.RbacV1().ClusterRoleBindings().Create(s.ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "environments"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "environments"},
		Subjects:   []rbacv1.Subject{{Kind: "User", Name: "environments"}},
	}, metav1.CreateOptions{})
	must(s.T, err)
}

// define installs a kind, of objects without a namespace if the stage has none. A label chooses it.
func (s *stage) define(group, kind, plural string, chosen bool) schema.GroupVersionResource {
	s.Helper()
	preserve, scope := true, apiextensionsv1.NamespaceScoped
	if s.ns == "" {
		scope = apiextensionsv1.ClusterScoped
	}
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: scope, Names: apiextensionsv1.CustomResourceDefinitionNames{
				Kind: kind, Plural: plural,
				Singular: strings.ToLower(kind),
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true, Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type:                   "object",
					XPreserveUnknownFields: &preserve,
				}},
			}},
		},
	}
	if chosen {
		crd.Labels = map[string]string{environment.Label: "true"}
	}
	_, err := s.definitions.ApiextensionsV1().CustomResourceDefinitions().Create(s.ctx, crd, metav1.CreateOptions{})
	must(s.T, err)
	gvr := schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}
	s.until("the kind is served", func() bool {
		_, err := s.objects.Resource(gvr).Namespace(s.ns).List(s.ctx, metav1.ListOptions{})
		return err == nil
	})
	return gvr
}

func (s *stage) create(gvr schema.GroupVersionResource, kind, name string, more map[string]any) {
	s.Helper()
	o := map[string]any{
		"apiVersion": gvr.GroupVersion().String(), "kind": kind, "metadata": map[string]any{"name": name},
		"spec": map[string]any{"size": "small"},
	}
	for k, v := range more {
		o[k] = v
	}
	if m, ok := o["metadata"].(map[string]any); ok {
		m["name"] = name
	}
	s.until("the object is created", func() bool {
		_, err := s.objects.Resource(gvr).Namespace(s.ns).Create(s.ctx, &unstructured.Unstructured{Object: o},
			metav1.CreateOptions{})
		return err == nil
	})
}

func (s *stage) edit(gvr schema.GroupVersionResource, name string, change func(o map[string]any),
	subresources ...string,
) {
	s.Helper()
	s.until("the object is changed", func() bool {
		o, err := s.objects.Resource(gvr).Namespace(s.ns).Get(s.ctx, name, metav1.GetOptions{})
		if err != nil {
			return false
		}
		change(o.Object)
		if len(subresources) > 0 {
			_, err = s.objects.Resource(gvr).Namespace(s.ns).UpdateStatus(s.ctx, o, metav1.UpdateOptions{})
		} else {
			_, err = s.objects.Resource(gvr).Namespace(s.ns).Update(s.ctx, o, metav1.UpdateOptions{})
		}
		return err == nil
	})
}

func (s *stage) ready(gvr schema.GroupVersionResource, name string) {
	s.Helper()
	s.edit(gvr, name, func(o map[string]any) {
		generation, _, _ := unstructured.NestedInt64(o, "metadata", "generation")
		o["status"] = map[string]any{"conditions": []any{
			map[string]any{
				"type": "Ready", "status": "True", "reason": "Available", "observedGeneration": generation,
				"lastTransitionTime": "2026-11-01T00:00:00Z",
			},
			map[string]any{
				"type": "Synced", "status": "True", "reason": "ReconcileSuccess", "observedGeneration": generation,
				"lastTransitionTime": "2026-11-01T00:00:00Z",
			},
		}}
	}, "status")
}

func (s *stage) remove(gvr schema.GroupVersionResource, name string) {
	s.Helper()
	if err := s.objects.Resource(gvr).Namespace(s.ns).Delete(s.ctx, name, metav1.DeleteOptions{}); err != nil &&
		!apierrors.IsNotFound(err) {
		s.Fatal(err)
	}
}

func (s *stage) until(what string, is func() bool) {
	s.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("not within a minute: %s", what)
		}
	}
}

// announced waits until these transitions of an object are journaled, and no others.
func (s *stage) announced(object string, want ...lifecycle.Type) {
	s.Helper()
	s.until(fmt.Sprintf("%s has %s", object, want), func() bool {
		got := s.events.Of(object)
		if len(got) > len(want) {
			s.Fatalf("%s: %v, want %v", object, got, want)
		}
		return slices.Equal(got, want)
	})
}

func (s *stage) marked(kind string, want environment.Readability) {
	s.Helper()
	s.until(kind+" is marked "+string(want), func() bool {
		m, err := s.clients.CDEventBaselines("default").Get(s.ctx, kind, metav1.GetOptions{})
		return err == nil && len(m.Status.Conditions) == 1 && m.Status.Conditions[0].Reason == string(want)
	})
}

func TestLifeOfEnvironments(t *testing.T) {
	s := newStage(t)
	s.allow()
	before := s.define("platform.example.com", "Platform", "platforms", true)
	s.create(before, "Platform", "old", nil)
	s.ready(before, "old")
	time.Sleep(1100 * time.Millisecond) // creation times have seconds
	s.start()
	s.marked("platform.platform.example.com", environment.Readable)

	// One that is newer than the controller, of a kind that is newer than it.
	later := s.define("nop.crossplane.io", "NopCluster", "nopclusters", true)
	s.create(later, "NopCluster", "eu", nil)
	s.announced("NopCluster/eu", "CrossplaneClusterCreated")
	s.ready(later, "eu")
	s.announced("NopCluster/eu", "CrossplaneClusterCreated", "EnvironmentCreated")

	// The old one is known, and only what becomes of it is announced.
	s.edit(before, "old", func(o map[string]any) { o["spec"] = map[string]any{"size": "large"} })
	time.Sleep(time.Second)
	s.announced("Platform/old")
	s.ready(before, "old")
	s.announced("Platform/old", "EnvironmentModified")
	s.remove(before, "old")
	s.announced("Platform/old", "EnvironmentModified", "EnvironmentDeleted")

	// A definition is removed with its objects.
	if err := s.definitions.ApiextensionsV1().CustomResourceDefinitions().Delete(s.ctx, "nopclusters.nop.crossplane.io",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.announced("NopCluster/eu", "CrossplaneClusterCreated", "EnvironmentCreated", "EnvironmentDeleted")
	s.marked("nopcluster.nop.crossplane.io", environment.Absent)
}

func TestDeletedEnvironmentWaitsForWhatIsBeneath(t *testing.T) {
	s := newStage(t)
	s.allow()
	beneath := s.define("thing.example.com", "Thing", "things", false)
	kind := s.define("platform.example.com", "Platform", "platforms", true)
	s.create(beneath, "Thing", "t", nil)
	s.start()
	s.marked("platform.platform.example.com", environment.Readable)
	s.controlled("platforms.platform.example.com")
	refs := map[string]any{"crossplane": map[string]any{"resourceRefs": []any{map[string]any{"apiVersion": "thing.example.com/v1", "kind": "Thing", "name": "t"}}}}
	s.create(kind, "Platform", "p", map[string]any{"spec": refs})
	s.ready(kind, "p")
	s.announced("Platform/p", "CrossplaneClusterCreated", "EnvironmentCreated")
	s.remove(kind, "p")
	time.Sleep(3 * time.Second)
	s.announced("Platform/p", "CrossplaneClusterCreated", "EnvironmentCreated")
	// The next one of this name comes after it.
	s.create(kind, "Platform", "p", nil)
	time.Sleep(time.Second)
	s.announced("Platform/p", "CrossplaneClusterCreated", "EnvironmentCreated")
	s.remove(beneath, "t")
	s.announced("Platform/p", "CrossplaneClusterCreated", "EnvironmentCreated", "EnvironmentDeleted",
		"CrossplaneClusterCreated")
}

// controlled lets a CompositeResourceDefinition control a definition.
func (s *stage) controlled(name string) {
	s.Helper()
	s.until("the definition is changed", func() bool {
		crd, err := s.definitions.ApiextensionsV1().CustomResourceDefinitions().Get(s.ctx, name, metav1.GetOptions{})
		if err != nil {
			return false
		}
		yes := true
		crd.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "apiextensions.crossplane.io/v1",
			Kind:       "CompositeResourceDefinition", Name: name, UID: "x", Controller: &yes,
		}}
		_, err = s.definitions.ApiextensionsV1().CustomResourceDefinitions().Update(s.ctx, crd, metav1.UpdateOptions{})
		return err == nil
	})
	time.Sleep(2 * time.Second)
}

func TestWhatMayNotBeReadIsNotDeleted(t *testing.T) {
	s := newStage(t)
	s.chosen = []schema.GroupKind{{Group: "platform.example.com", Kind: "Platform"}}
	s.start()
	s.marked("platform.platform.example.com", environment.Absent)
	kind := s.define("platform.example.com", "Platform", "platforms", false)
	s.marked("platform.platform.example.com", environment.MayNotRead)
	s.create(kind, "Platform", "p", nil)
	s.ready(kind, "p")
	s.allow()
	s.announced("Platform/p", "EnvironmentCreated")
	s.marked("platform.platform.example.com", environment.Readable)

	// It is not chosen any more: nothing is said of its objects, until it is chosen again.
	s.mu.Lock()
	chosen := s.chosen
	s.chosen = nil
	s.mu.Unlock()
	s.watch.Compare()
	s.marked("platform.platform.example.com", environment.NotChosen)
	s.mu.Lock()
	s.chosen = chosen
	s.mu.Unlock()
	s.watch.Compare()
	s.marked("platform.platform.example.com", environment.Readable)
	s.announced("Platform/p", "EnvironmentCreated")

	// It goes while no controller runs.
	s.stop()
	time.Sleep(time.Second)
	s.remove(kind, "p")
	s.start()
	s.announced("Platform/p", "EnvironmentCreated", "EnvironmentDeleted")
}

// A definition that is never served, and one whose name begins like another's, change nothing for other kinds.
func TestDefinitionsThatAreNotServedBlockNoOther(t *testing.T) {
	s := newStage(t)
	s.allow()
	s.chosen = []schema.GroupKind{{Group: "fleet.example.com", Kind: "Cluster"}}
	s.define("fleet.example.com", "ClusterClass", "clusterclasses", false)
	kind := s.define("fleet.example.com", "Cluster", "clusters", false)
	s.start()
	s.marked("cluster.fleet.example.com", environment.Readable)
	s.define("dead.example.com", "Dead", "deads", true)
	s.marked("dead.dead.example.com", environment.Readable)
	s.until("no version is served", func() bool {
		crd, err := s.definitions.ApiextensionsV1().CustomResourceDefinitions().Get(s.ctx, "deads.dead.example.com",
			metav1.GetOptions{})
		if err != nil {
			return false
		}
		crd.Spec.Versions[0].Served = false
		_, err = s.definitions.ApiextensionsV1().CustomResourceDefinitions().Update(s.ctx, crd, metav1.UpdateOptions{})
		return err == nil
	})
	s.create(kind, "Cluster", "c", nil)
	s.ready(kind, "c")
	s.announced("Cluster/c", "EnvironmentCreated")
	must(t, s.definitions.ApiextensionsV1().CustomResourceDefinitions().Delete(s.ctx, "clusters.fleet.example.com",
		metav1.DeleteOptions{}))
	s.announced("Cluster/c", "EnvironmentCreated", "EnvironmentDeleted")
	s.marked("cluster.fleet.example.com", environment.Absent)
}
