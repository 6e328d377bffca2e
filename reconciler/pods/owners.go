// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	lru "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/metadata"
	"knative.dev/serving/pkg/apis/serving"
)

// RefusedError says why a pod is not what it claims to be.
type RefusedError struct {
	Pod types.NamespacedName
	// Why completes the sentence "the pod …".
	Why string
}

func (e *RefusedError) Error() string { return fmt.Sprintf("pod %s %s", e.Pod, e.Why) }

// How long a result for a ReplicaSet is cached. Owners rarely change, but a missing
// one may still appear, because informers lag behind the API server.
const (
	ownedFor   = 10 * time.Minute
	refusedFor = 15 * time.Second
	// maxOwners bounds the number of cached ReplicaSets.
	maxOwners = 8192
)

// owners finds the Revision that owns a pod's ReplicaSet. It asks the API server for
// the metadata of the objects between them.
type owners struct {
	meta  metadata.Interface
	known *lru.LRUExpireCache
}

func newOwners(meta metadata.Interface) *owners {
	return &owners{meta: meta, known: lru.NewLRUExpireCache(maxOwners)}
}

// revision is the Revision that owns a ReplicaSet, or the reason why there is none.
type revision struct {
	name, service   string
	uid, serviceUID types.UID
	// generation of the Configuration, as on the Revision's label; 0 if it is not known.
	generation int64
	nowhere    string
}

var (
	replicaSets = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	revisions   = schema.GroupVersionResource{Group: serving.GroupName, Version: "v1", Resource: "revisions"}
)

func (o *owners) check(ctx context.Context, p *Pod) error {
	refuse := func(why string, args ...any) error {
		return &RefusedError{Pod: types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, Why: fmt.Sprintf(why, args...)}
	}
	switch {
	case p.HostNetwork:
		return refuse("uses the network of its node, so its address is not its own")
	case p.IP != "" && !ownAddress(p.IP):
		return refuse("has the address %s, which cannot belong to a pod", p.IP)
	case p.Owner.Kind != "ReplicaSet" || !strings.HasPrefix(p.Owner.APIVersion, "apps/"):
		return refuse("is not controlled by a ReplicaSet, as pods of Revisions are")
	}
	r, err := o.of(ctx, p.Namespace, p.Owner)
	if err != nil {
		return fmt.Errorf("finding out whether pod %s/%s belongs to Revision %s: %w", p.Namespace, p.Name, p.Revision, err)
	}
	switch {
	case r.nowhere != "":
		return refuse("%s", r.nowhere)
	case r.uid != p.RevisionUID || r.name != p.Revision:
		return refuse("claims to belong to Revision %s (UID %s), but belongs to %s (UID %s)", p.Revision, p.RevisionUID,
			r.name, r.uid)
	case r.service != p.Service || r.serviceUID != p.ServiceUID:
		return refuse("claims to belong to Service %s (UID %s), but its Revision belongs to %s (UID %s)", p.Service,
			p.ServiceUID, r.service, r.serviceUID)
	case p.Generation != r.generation:
		return refuse("claims generation %d, but its Revision has generation %d", p.Generation, r.generation)
	}
	return nil
}

// ownAddress reports whether an address can belong to a single pod. Loopback and
// link-local addresses would lead to this process or its node.
func ownAddress(ip string) bool {
	a, err := netip.ParseAddr(ip)
	return err == nil && !a.IsLoopback() && !a.IsUnspecified() && !a.IsLinkLocalUnicast() && !a.IsMulticast() &&
		a.Zone() == ""
}

func (o *owners) of(ctx context.Context, namespace string, set Owner) (revision, error) {
	if had, ok := o.known.Get(set.UID); ok {
		if r, ok := had.(revision); ok {
			return r, nil
		}
	}
	r, err := o.ask(ctx, namespace, set)
	var nowhere *nowhereError
	switch {
	case errors.As(err, &nowhere):
		r = revision{nowhere: nowhere.Error()}
		o.known.Add(set.UID, r, refusedFor)
	case err != nil:
		return revision{}, err
	default:
		o.known.Add(set.UID, r, ownedFor)
	}
	return r, nil
}

// nowhereError says that the chain of owners certainly does not lead to a Revision.
type nowhereError struct{ why string }

func (e *nowhereError) Error() string { return e.why }

func (o *owners) ask(ctx context.Context, namespace string, set Owner) (revision, error) {
	deployment, err := o.up(ctx, link{replicaSets, "apps/", "Deployment"}, namespace, set)
	if err != nil {
		return revision{}, err
	}
	rev, err := o.up(ctx, link{deployments, serving.GroupName + "/", "Revision"}, namespace, deployment)
	if err != nil {
		return revision{}, err
	}
	m, err := o.get(ctx, revisions, namespace, rev)
	if err != nil {
		return revision{}, err
	}
	// The labels alone prove nothing: anyone who may create Revisions can set them. Kubernetes deletes a Revision whose
	// Configuration does not exist with this UID. Serving gives the Configuration of a Service the name of the Service.
	of := ownerOf(m)
	if of.Kind != "Configuration" || !strings.HasPrefix(of.APIVersion, serving.GroupName+"/") ||
		of.Name != m.Labels[serving.ServiceLabelKey] {
		return revision{}, &nowhereError{
			fmt.Sprintf("belongs to Revision %s, which the Configuration of its Service does not control", m.Name),
		}
	}
	return revision{
		name: m.Name, uid: m.UID, service: m.Labels[serving.ServiceLabelKey],
		serviceUID: types.UID(m.Labels[serving.ServiceUIDLabelKey]), generation: generationOf(m),
	}, nil
}

// link is one step in the chain of owners: objects of a resource, and the kind that controls
// them.
type link struct {
	of                schema.GroupVersionResource
	group, controller string
}

// up returns the controller of an object.
func (o *owners) up(ctx context.Context, l link, namespace string, of Owner) (Owner, error) {
	m, err := o.get(ctx, l.of, namespace, of)
	if err != nil {
		return Owner{}, err
	}
	owner := ownerOf(m)
	if owner.Kind != l.controller || !strings.HasPrefix(owner.APIVersion, l.group) {
		return Owner{}, &nowhereError{fmt.Sprintf("belongs to %s %s, which no %s controls", of.Kind, of.Name, l.controller)}
	}
	return owner, nil
}

func (o *owners) get(ctx context.Context, kind schema.GroupVersionResource, namespace string,
	of Owner,
) (*metav1.PartialObjectMetadata, error) {
	m, err := o.meta.Resource(kind).Namespace(namespace).Get(ctx, of.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, &nowhereError{fmt.Sprintf("belongs to %s %s, which does not exist", of.Kind, of.Name)}
	case err != nil:
		return nil, fmt.Errorf("reading %s %s/%s: %w", of.Kind, namespace, of.Name, err)
	case m.UID != of.UID:
		return nil, &nowhereError{fmt.Sprintf("belongs to %s %s with UID %s, but the existing one has another UID", of.Kind,
			of.Name, of.UID)}
	}
	return m, nil
}
