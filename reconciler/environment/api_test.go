// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// api is an API server with a few objects. Their resources are named "<kind>s".
type api struct {
	mu      sync.Mutex
	objects map[string]*unstructured.Unstructured // by path
	// forbidden are the kinds that nobody may read.
	forbidden map[string]bool
}

func newAPI(objects ...*unstructured.Unstructured) *api {
	a := &api{objects: map[string]*unstructured.Unstructured{}, forbidden: map[string]bool{}}
	for _, o := range objects {
		a.put(o)
	}
	return a
}

func pathOf(o *unstructured.Unstructured) string {
	at := "/apis/" + o.GetAPIVersion()
	if ns := o.GetNamespace(); ns != "" {
		at += "/namespaces/" + ns
	}
	return at + "/" + strings.ToLower(o.GetKind()) + "s/" + o.GetName()
}

func (a *api) put(o *unstructured.Unstructured) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.objects[pathOf(o)] = o
}

// empty removes all objects. Their kinds stay.
func (a *api) empty() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for at, o := range a.objects {
		o = o.DeepCopy()
		o.SetName("another")
		delete(a.objects, at)
		a.objects[pathOf(o)] = o
	}
}

func (a *api) forbid(kind string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forbidden[strings.ToLower(kind)+"s"] = true
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch answer, code := a.answer(r.URL.Path), http.StatusNotFound; {
	case answer != nil:
		_ = json.NewEncoder(w).Encode(answer)
	default:
		if a.forbidden[path.Base(path.Dir(r.URL.Path))] {
			code = http.StatusForbidden
		}
		w.WriteHeader(code)
		reason := map[int]metav1.StatusReason{
			http.StatusNotFound:  metav1.StatusReasonNotFound,
			http.StatusForbidden: metav1.StatusReasonForbidden,
		}[code]
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status:   metav1.StatusFailure, Reason: reason, Code: int32(code),
		})
	}
}

func (a *api) answer(at string) any {
	if o, ok := a.objects[at]; ok && !a.forbidden[path.Base(path.Dir(at))] {
		return o
	}
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}}
	for _, o := range a.objects {
		gvk := o.GroupVersionKind()
		switch at {
		case "/apis/" + gvk.Group:
			v := metav1.GroupVersionForDiscovery{GroupVersion: gvk.GroupVersion().String(), Version: gvk.Version}
			return metav1.APIGroup{
				TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: gvk.Group,
				Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v,
			}
		case "/apis/" + gvk.GroupVersion().String():
			list.GroupVersion = gvk.GroupVersion().String()
			list.APIResources = append(list.APIResources,
				metav1.APIResource{
					Name: strings.ToLower(gvk.Kind) + "s", Kind: gvk.Kind, Namespaced: o.GetNamespace() != "",
					Verbs: []string{"get"},
				})
		}
	}
	if list.GroupVersion == "" {
		return nil
	}
	return list
}

// story is the life of one object, as a process sees it.
type story struct {
	t     *testing.T
	now   time.Time
	kind  *Kind
	at    Target
	m     observer.Memory
	wake  time.Time
	told  []lifecycle.Transition
	names []string
}

// defaults are the settings without a ConfigMap, and without kinds.
type defaults struct{}

func (defaults) Rules() lifecycle.Rules               { return lifecycle.DefaultRules }
func (defaults) EnvironmentKinds() []schema.GroupKind { return nil }

func (a *api) story(t *testing.T, of schema.GroupKind, at Target) *story {
	t.Helper()
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL}
	s := &story{t: t, at: at, now: time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)}
	s.kind = NewKind(Options{
		Shared: observer.Shared{
			Options:  observer.Options{Now: func() time.Time { return s.now }},
			Metadata: metadata.NewForConfigOrDie(config),
		},
		Discovery: discovery.NewDiscoveryClientForConfigOrDie(config), Settings: defaults{},
		Dynamic: dynamic.NewForConfigOrDie(config),
	}, of, at)
	m, err := s.kind.Recall(nil)
	if err != nil {
		t.Fatal(err)
	}
	s.m = m
	return s
}

func (s *story) take(r observer.Result, err error) observer.Result {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
	if r.Memory != nil {
		s.m = r.Memory
	}
	for _, tr := range r.Transitions {
		s.told, s.names = append(s.told, tr), append(s.names, string(tr.Type))
	}
	s.wake = r.Wake
	return r
}

// see folds a state of the object.
func (s *story) see(u *unstructured.Unstructured) {
	s.t.Helper()
	p := observer.Part{
		Name: partObject, Version: u.GetResourceVersion(), Root: true,
		Value: projector{composite: s.at.Composite}.project(u),
	}
	s.take(s.m.Next(s.t.Context(), observer.Step{
		Key:   types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()},
		State: observer.State{Parts: observer.Parts{partObject: p}, At: s.now}, Later: func() []observer.State { return nil },
	}))
}

// end folds that the object is gone, for as long as the end waits.
func (s *story) end() {
	s.t.Helper()
	for range 200 {
		m, ok := s.m.(memory)
		if !ok {
			s.t.Fatalf("%T", s.m)
		}
		if r := s.take(m.End(s.t.Context(), s.now)); !r.Wait {
			return
		}
		s.now = s.wake
	}
	s.t.Fatal("the end waits for ever")
}

func (s *story) last() lifecycle.Transition {
	s.t.Helper()
	if len(s.told) == 0 {
		s.t.Fatal("nothing is told")
	}
	return s.told[len(s.told)-1]
}
