package sim

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/reconciler/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// A process is also the kind that its observer watches.

// APIVersion implements observer.Kind.
func (*process) APIVersion() string { return "serving.knative.dev/v1" }

// Name implements observer.Kind.
func (*process) Name() string { return kindName }

// Served implements observer.Kind.
func (*process) Served() bool { return true }

// Keys implements observer.Kind.
func (p *process) Keys() []types.NamespacedName { return slices.Collect(maps.Keys(p.cache)) }

// Cached implements observer.Kind.
func (p *process) Cached(key types.NamespacedName) observer.Parts { return maps.Clone(p.cache[key]) }

// Live implements observer.Kind.
func (p *process) Live(_ context.Context, key types.NamespacedName) (types.UID, error) {
	if s, ok := p.w.cluster.live[key]; ok {
		return s.uid, nil
	}
	return "", nil
}

// Fetch implements observer.Kind.
func (p *process) Fetch(_ context.Context, namespace string, revisions []string) (observer.Parts, error) {
	out := observer.Parts{}
	for key, s := range p.w.cluster.live {
		for _, r := range revisions {
			if part, ok := s.parts[partRevision+r]; ok && key.Namespace == namespace {
				out[part.Name] = part
			}
		}
	}
	return out, nil
}

// Compose implements observer.Kind.
func (*process) Compose(parts observer.Parts) *observer.Subject {
	svc, ok := parts[partService].Value.(serviceValue)
	if !ok {
		return nil
	}
	s := lifecycle.Snapshot{
		Seen: map[string]string{partService: parts[partService].Version}, Generation: svc.Gen, Ready: svc.Ready,
		Revisions: map[string]lifecycle.Revision{},
	}
	for _, part := range parts {
		switch v := part.Value.(type) {
		case routeValue:
			if v.Owner == svc.UID {
				route := v.Route
				s.Route = &route
				s.Seen[partRoute] = part.Version
			}
		case *lifecycle.Cluster:
			if part.Owner == svc.UID {
				s.Cluster = v
			}
		case revisionValue:
			if v.Owner == svc.UID {
				s.Revisions[v.Facts.Name] = v.Facts
			}
		}
	}
	return &observer.Subject{UID: svc.UID, Created: svc.Created, Snapshot: s}
}

// Position implements observer.Kind.
func (*process) Position() string { return "" }
