package pods

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"knative.dev/serving/pkg/apis/serving"
)

// byService is the index from a Service to its pods, byDying that to those of them that are being deleted.
const (
	byService = "service"
	byDying   = "dying"
)

// Informer has the pods that claim to belong to a Knative Service, as far as an
// informer has seen them. Whether they do is for Owned to say.
type Informer struct {
	informer cache.SharedIndexInformer
	synced   []cache.InformerSynced
	owners   *owners
}

// New watches the pods of all Services. Run must be called.
func New(kube kubernetes.Interface, meta metadata.Interface) (*Informer, error) {
	p := &Informer{owners: newOwners(meta)}
	p.informer = coreinformers.NewFilteredPodInformer(kube, metav1.NamespaceAll, 0, cache.Indexers{byService: serviceIndex, byDying: dyingIndex},
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

// OnChange has f called with the Service of every pod that comes, changes or
// goes. It must not block. It is called before Run.
func (p *Informer) OnChange(f func(service types.NamespacedName)) error {
	tell := func(obj any) {
		if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj
		}
		if s, ok := obj.(*stored); ok {
			f(s.pod.Key())
		}
	}
	registration, err := p.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: tell,
		UpdateFunc: func(before, now any) {
			was, had := before.(*stored)
			is, has := now.(*stored)
			if had && has && was.pod.Key() != is.pod.Key() {
				f(was.pod.Key()) // somebody gave it another label
			}
			tell(now)
		},
		DeleteFunc: tell,
	})
	if err != nil {
		return fmt.Errorf("adding a handler to the informer for pods: %w", err)
	}
	p.synced = append(p.synced, registration.HasSynced)
	return nil
}

// Run watches until the context ends.
func (p *Informer) Run(ctx context.Context) { p.informer.RunWithContext(ctx) }

// Synced says whether all pods are known.
func (p *Informer) Synced() bool {
	return p.informer.HasSynced() && !slices.ContainsFunc(p.synced, func(done cache.InformerSynced) bool { return !done() })
}

// Of returns the pods that claim to belong to a Service, over all its Revisions
// and those that are being deleted too, by name.
func (p *Informer) Of(service types.NamespacedName) []*Pod { return p.by(byService, service) }

// Dying are those of them that are being deleted. It costs next to nothing where there is none.
func (p *Informer) Dying(service types.NamespacedName) []*Pod { return p.by(byDying, service) }

func (p *Informer) by(index string, service types.NamespacedName) []*Pod {
	objs, err := p.informer.GetIndexer().ByIndex(index, service.String())
	if err != nil {
		return nil // the index is ours and always there
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

// Owned says whether a pod is what its labels say. Labels can be put on any pod
// by whoever may make one, so that nothing is asked of a pod, or counted for a
// Service, before this has returned nil. The error is a *RefusedError where the
// pod is known not to be owned; any other means that it could not be found out.
func (p *Informer) Owned(ctx context.Context, pod *Pod) error { return p.owners.check(ctx, pod) }

// project is the transform of the informer. What is no pod, and what was
// projected before, stays as it is.
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
