// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/network"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	servingv1beta1 "knative.dev/serving/pkg/apis/serving/v1beta1"
	"knative.dev/serving/pkg/client/clientset/versioned"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// resources are what is watched.
var resources = []schema.GroupVersionResource{
	servingv1.SchemeGroupVersion.WithResource("services"), servingv1.SchemeGroupVersion.WithResource("routes"),
	servingv1.SchemeGroupVersion.WithResource("revisions"),
	servingv1beta1.SchemeGroupVersion.WithResource("domainmappings"),
}

// definitions are the CustomResourceDefinitions that must exist.
func definitions() []string {
	out := make([]string, 0, len(resources))
	for _, r := range resources {
		out = append(out, r.GroupResource().String())
	}
	return out
}

// Resource names the kind in the ledger's baseline marker.
const Resource = "services.serving.knative.dev"

// byDeclaration is the index of Revisions that declare a stateful cluster, or try to.
const byDeclaration = "declaration"

// byRoot is the index from a Service to the objects of other names that belong to it, and to some that do not.
const byRoot = "root"

// Presence knows which kinds exist. observer.Presence implements it.
type Presence interface {
	// Synced reports whether all definitions are known.
	Synced() bool
	Has(definitions ...string) bool
}

// Kind is the watched kind. It implements observer.Kind.
type Kind struct {
	client   versioned.Interface
	projects projector
	presence Presence
	settings observer.Settings

	mu       sync.RWMutex
	indexers []cache.Indexer
	position func() string
	// clusters is nil if none is polled.
	clusters Clusters
}

// NewKind returns the kind without caches. Carried are the annotations that events need.
func NewKind(client versioned.Interface, carried []string, presence Presence, settings observer.Settings) *Kind {
	return &Kind{
		client: client, projects: projector{carried: carried, clusterDomain: network.GetClusterDomainName()},
		presence: presence, settings: settings,
	}
}

// Project is the cache.TransformFunc of the caches. It returns what they hold of an object.
func (k *Kind) Project(obj any) (any, error) { return k.projects.transform(obj) }

// Indexers returns the indexers that each cache must have.
func Indexers() cache.Indexers {
	return cache.Indexers{byRoot: rootIndex, byDeclaration: declarationIndex}
}

var (
	_ observer.Confirmer  = (*Kind)(nil)
	_ observer.Positioned = (*Kind)(nil)
)

// APIVersion implements observer.Kind.
func (*Kind) APIVersion() string { return "serving.knative.dev/v1" }

// Name implements observer.Kind.
func (*Kind) Name() string { return "Service" }

func (k *Kind) caches() []cache.Indexer {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.indexers
}

// Use sets the caches of Services, Routes, Revisions and DomainMappings, nil for none, and the
// version as of which the last one is complete.
func (k *Kind) Use(indexers []cache.Indexer, position func() string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.indexers, k.position = indexers, position
}

// Position implements observer.Positioned.
func (k *Kind) Position() string {
	k.mu.RLock()
	position := k.position
	k.mu.RUnlock()
	if position == nil {
		return ""
	}
	return position()
}

// Keys implements observer.Kind.
func (k *Kind) Keys() []types.NamespacedName {
	seen := map[types.NamespacedName]bool{}
	for _, indexer := range k.caches() {
		for _, obj := range indexer.List() {
			if s, ok := obj.(*stored); ok && s.service != "" {
				seen[s.root()] = true
			}
		}
	}
	return slices.Collect(maps.Keys(seen))
}

// has reports whether Keys lists a Service.
func (k *Kind) has(key types.NamespacedName) bool {
	name := key.String()
	return slices.ContainsFunc(k.caches(), func(indexer cache.Indexer) bool {
		return len(belonging(indexer, key, name)) > 0
	})
}

// belonging returns what a cache holds that belongs to a Service: the object of the same name, and those that the
// index finds.
func belonging(indexer cache.Indexer, key types.NamespacedName, name string) []*stored {
	found, err := indexer.ByIndex(byRoot, indexValueOf(key))
	if err != nil {
		found = nil // each of our caches has this index
	}
	if obj, exists, err := indexer.GetByKey(name); err == nil && exists {
		if s, ok := obj.(*stored); ok && s.named() {
			found = append(found, obj)
		}
	}
	var out []*stored
	for _, obj := range found {
		if s, ok := obj.(*stored); ok && s.service == key.Name && s.namespace.Value() == key.Namespace {
			out = append(out, s)
		}
	}
	return out
}

// declared lists the Services that have a Revision that declares a stateful cluster, or tries
// to.
func (k *Kind) declared() map[types.NamespacedName]Declared {
	out := map[types.NamespacedName]Declared{}
	for _, indexer := range k.caches() {
		for _, key := range indexer.ListIndexFuncValues(byDeclaration) {
			namespace, name, _ := strings.Cut(key, "/")
			service := types.NamespacedName{Namespace: namespace, Name: name}
			if d := k.Declaration(service); d.UID != "" {
				out[service] = d
			}
		}
	}
	return out
}

// Declaration sums up what the Revisions of a Service declare.
func (k *Kind) Declaration(service types.NamespacedName) Declared {
	parts := k.Cached(service)
	svc, ok := parts[partService].Value.(serviceValue)
	if !ok {
		return Declared{}
	}
	out, newest := Declared{UID: svc.UID}, int64(-1)
	for _, part := range parts {
		r, ok := part.Value.(revisionValue)
		if !ok || r.Owner != svc.UID && r.Owner != "" {
			continue
		}
		out.Stateful = out.Stateful || r.Facts.Stateful != ""
		if r.Facts.Generation > newest {
			newest, out.Wrong = r.Facts.Generation, r.Facts.Misdeclared != ""
		}
	}
	return out
}

// Cached implements observer.Kind.
func (k *Kind) Cached(key types.NamespacedName) observer.Parts {
	parts, name := observer.Parts{}, key.String()
	for _, indexer := range k.caches() {
		for _, s := range belonging(indexer, key, name) {
			parts[s.part.Name] = s.part
		}
	}
	return parts
}

// Object implements observer.Kind.
func (*Kind) Object(p observer.Parts) *observer.Object {
	if svc, ok := p[partService].Value.(serviceValue); ok {
		return &observer.Object{UID: svc.UID, Created: svc.Created}
	}
	return nil
}

// Composed is a Service at one moment.
type Composed struct {
	UID      types.UID
	Snapshot lifecycle.Snapshot
}

// Compose puts a Service together from its parts. It returns nil if there is none.
func Compose(p observer.Parts) *Composed {
	svc, ok := p[partService].Value.(serviceValue)
	if !ok {
		return nil
	}
	s := lifecycle.Snapshot{
		Versions:    map[string]string{partService: p[partService].Version},
		Generation:  svc.Generation,
		Ready:       svc.Ready,
		EverReady:   svc.EverReady,
		Annotations: svc.Annotations,
		Labels:      svc.Labels,
		Trouble:     svc.Trouble,
		Revisions:   map[string]*lifecycle.Revision{},
	}
	var domains []string
	for name, part := range p {
		switch v := part.Value.(type) {
		case routeValue:
			if v.Owner == svc.UID {
				route := v.Route
				s.Route = &route
				s.Versions[partRoute] = part.Version
			}
		case *lifecycle.Cluster:
			if part.Owner == svc.UID {
				s.Cluster = v
			}
		case []lifecycle.Verdict:
			if part.Owner == svc.UID {
				s.Verdicts = v
			}
		case domainValue:
			if v.Away {
				s.Away = append(s.Away, v.URL)
				continue
			}
			domains = append(domains, v.URL)
		case revisionValue:
			if v.Owner == svc.UID || v.Owner == "" {
				s.Revisions[strings.TrimPrefix(name, partRevision)] = v.Facts
			}
		}
	}
	slices.Sort(s.Away)
	if s.Route != nil {
		s.Route.URLs = lifecycle.WithURLs(s.Route.URLs, domains)
	}
	return &Composed{UID: svc.UID, Snapshot: s}
}

// Served implements observer.Kind. Until all definitions are known, there may be such a kind.
func (k *Kind) Served() bool { return !k.presence.Synced() || k.presence.Has(definitions()...) }

// Live implements observer.Kind.
func (k *Kind) Live(ctx context.Context, key types.NamespacedName) (types.UID, error) {
	svc, err := k.client.ServingV1().Services(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		return svc.UID, nil
	case k.gone(err, key.Name):
		return "", nil
	case !apierrors.IsNotFound(err):
		return "", fmt.Errorf("reading Service %s: %w", key, err)
	}
	// The kind is not served, although its definition exists: the API server is starting.
	// That says nothing about the object.
	return "", fmt.Errorf("reading Service %s: the kind is not served at the moment: %w", key, err)
}

// gone reports whether the API server has answered that an object, or its kind, does not exist.
func (k *Kind) gone(err error, name string) bool {
	return apierrors.IsNotFound(err) && (k.isObject(err, name) || !k.Served())
}

// isObject distinguishes "no such object" from "no such kind". The client gives the name of the object to both.
func (*Kind) isObject(err error, name string) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Name == name &&
		!apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// fetch asks the API server for Revisions, and returns them as parts. One that is gone is
// left out.
func (k *Kind) fetch(ctx context.Context, namespace string, revisions []string) (observer.Parts, error) {
	out := observer.Parts{}
	for _, name := range revisions {
		rev, err := k.client.ServingV1().Revisions(namespace).Get(ctx, name, metav1.GetOptions{})
		if k.gone(err, name) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading Revision %s/%s: %w", namespace, name, err)
		}
		value, err := k.projects.revision(rev)
		if err != nil {
			return nil, err
		}
		out[partRevision+name] = observer.Part{Name: partRevision + name, Version: rev.ResourceVersion, Value: value}
	}
	return out, nil
}
