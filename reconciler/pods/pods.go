// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"knative.dev/serving/pkg/apis/serving"
)

// byService indexes pods by Service; byDying indexes only those that are being deleted.
const (
	byService = "service"
	byDying   = "dying"
)

// Informer caches the pods that claim to belong to a Knative Service. Owned checks
// the claim.
type Informer struct {
	kube     kubernetes.Interface
	informer cache.SharedIndexInformer
	synced   []cache.InformerSynced
	owners   *owners
}

// New creates an informer for the pods of all Services. The caller must call Run.
func New(kube kubernetes.Interface, meta metadata.Interface) (*Informer, error) {
	p := &Informer{kube: kube, owners: newOwners(meta)}
	p.informer = coreinformers.NewFilteredPodInformer(kube, metav1.NamespaceAll, 0,
		cache.Indexers{byService: serviceIndex, byDying: dyingIndex},
		func(o *metav1.ListOptions) { o.LabelSelector = serving.ServiceLabelKey })
	if err := p.informer.SetTransform(project); err != nil {
		return nil, fmt.Errorf("setting a transform on the informer for pods: %w", err)
	}
	return p, nil
}

func serviceIndex(obj any) ([]string, error) {
	if s, ok := obj.(*stored); ok {
		return []string{s.pod.Key().String()}, nil
	}
	return nil, nil
}

func dyingIndex(obj any) ([]string, error) {
	if s, ok := obj.(*stored); ok && !s.pod.Deleting.IsZero() {
		return []string{s.pod.Key().String()}, nil
	}
	return nil, nil
}

// OnChange registers f to be called with the Service of every pod that is added, changed
// or deleted. f must not block. Call OnChange before Run.
func (p *Informer) OnChange(f func(service types.NamespacedName)) error {
	notify := func(obj any) {
		if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj
		}
		if s, ok := obj.(*stored); ok {
			f(s.pod.Key())
		}
	}
	registration, err := p.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: notify,
		UpdateFunc: func(before, now any) {
			was, had := before.(*stored)
			is, has := now.(*stored)
			if had && has && was.pod.Key() != is.pod.Key() {
				f(was.pod.Key()) // its label was changed
			}
			notify(now)
		},
		DeleteFunc: notify,
	})
	if err != nil {
		return fmt.Errorf("adding a handler to the informer for pods: %w", err)
	}
	p.synced = append(p.synced, registration.HasSynced)
	return nil
}

// Live asks the API server whether a pod with this UID exists, and has not ended.
func (p *Informer) Live(ctx context.Context, pod types.NamespacedName, uid types.UID) (bool, error) {
	found, err := p.kube.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading pod %s: %w", pod, err)
	}
	return found.UID == uid && found.Status.Phase != corev1.PodSucceeded && found.Status.Phase != corev1.PodFailed, nil
}

// Run watches until the context ends.
func (p *Informer) Run(ctx context.Context) { p.informer.RunWithContext(ctx) }

// Synced reports whether the cache is complete.
func (p *Informer) Synced() bool {
	return p.informer.HasSynced() && !slices.ContainsFunc(p.synced,
		func(done cache.InformerSynced) bool { return !done() })
}

// Of returns the pods that claim to belong to a Service, sorted by name. They include
// those of all Revisions, and those that are being deleted.
func (p *Informer) Of(service types.NamespacedName) []*Pod { return p.by(byService, service) }

// Dying returns those that are being deleted. It is cheap where there are none.
func (p *Informer) Dying(service types.NamespacedName) []*Pod { return p.by(byDying, service) }

func (p *Informer) by(index string, service types.NamespacedName) []*Pod {
	objs, err := p.informer.GetIndexer().ByIndex(index, service.String())
	if err != nil {
		return nil // New always adds the index
	}
	out := make([]*Pod, 0, len(objs))
	for _, obj := range objs {
		if s, ok := obj.(*stored); ok {
			out = append(out, s.pod)
		}
	}
	slices.SortFunc(out, func(a, b *Pod) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Services lists the Services that any pod claims to belong to.
func (p *Informer) Services() []types.NamespacedName {
	keys := p.informer.GetIndexer().ListIndexFuncValues(byService)
	slices.Sort(keys)
	out := make([]types.NamespacedName, 0, len(keys))
	for _, key := range keys {
		namespace, name, _ := strings.Cut(key, "/")
		out = append(out, types.NamespacedName{Namespace: namespace, Name: name})
	}
	return out
}

// Owned checks that a pod belongs to the Service and Revision in its labels. Anyone
// who can create pods can set labels, so a pod must not be read or counted before this
// returns nil. A *RefusedError means that the pod is not owned; any other error means
// that this could not be determined.
func (p *Informer) Owned(ctx context.Context, pod *Pod) error { return p.owners.check(ctx, pod) }

// project is the informer's transform. It leaves objects that are not pods, or are
// projected already, unchanged.
func project(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	return &stored{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		},
		pod: projected(pod),
	}, nil
}
