package gate

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/reconciler/gate/customrun"
)

// definition is that of CanaryGates.
const definition = "canarygates.knative-cdevents.dev"

// runs are the CustomRuns of the cluster, as long as there are any and they may be
// read. An informer runs once, so that each time the kind comes there is a new one.
type runs struct {
	client  dynamic.Interface
	current atomic.Pointer[cache.SharedIndexInformer]
	// refused was told already.
	refused atomic.Bool
}

func newRuns(c dynamic.Interface) *runs {
	r := &runs{client: c}
	r.renew()
	return r
}

func (r *runs) informer() cache.SharedIndexInformer { return *r.current.Load() }

func (r *runs) renew() cache.SharedIndexInformer {
	informer := dynamicinformer.NewFilteredDynamicInformer(r.client, customrun.Resource, metav1.NamespaceAll, 0, cache.Indexers{byGate: indexByGate}, nil).Informer()
	r.current.Store(&informer)
	return informer
}

// watch runs an informer until the context ends.
func (r *runs) watch(ctx context.Context, handler cache.ResourceEventHandler) error {
	informer := r.renew()
	if err := informer.SetTransform(slim); err != nil {
		return fmt.Errorf("setting a transform on the informer for CustomRuns: %w", err)
	}
	if err := informer.SetWatchErrorHandlerWithContext(r.failed); err != nil {
		return fmt.Errorf("setting an error handler on the informer for CustomRuns: %w", err)
	}
	if _, err := informer.AddEventHandler(handler); err != nil {
		return fmt.Errorf("adding a handler to the informer for CustomRuns: %w", err)
	}
	informer.RunWithContext(ctx)
	r.renew() // what is gone is not kept
	return nil
}

// refusedPause is how long is waited before asking again for what is not allowed.
const refusedPause = time.Minute

// failed is told of every list or watch that failed. Rights that are not there are
// told once: config/tekton, which gives them, is opted into.
func (r *runs) failed(ctx context.Context, of *cache.Reflector, err error) {
	if !apierrors.IsForbidden(err) {
		cache.DefaultWatchErrorHandler(ctx, of, err)
		return
	}
	if !r.refused.Swap(true) {
		logging.FromContext(ctx).Warnw("Tekton is installed, but the controller may not read CustomRuns, so gates do not run for them. "+
			"To allow it, apply config/tekton/200-customruns.yaml. The controller tries again every minute", "error", err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(refusedPause):
	}
}

// slim keeps of CustomRuns that are not for a gate nothing but their names.
func slim(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	if customrun.Ours(u) {
		u.SetManagedFields(nil)
		return u, nil
	}
	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetGroupVersionKind(u.GroupVersionKind())
	out.SetNamespace(u.GetNamespace())
	out.SetName(u.GetName())
	out.SetUID(u.GetUID())
	out.SetResourceVersion(u.GetResourceVersion())
	return out, nil
}
