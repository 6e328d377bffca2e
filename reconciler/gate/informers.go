// SPDX-License-Identifier: Apache-2.0

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

// definition is the name of the CRD of CanaryGates.
const definition = "canarygates.knative-cdevents.dev"

// templateDefinition is the name of the CRD of ClusterCanaryGateTemplates.
const templateDefinition = "clustercanarygatetemplates.knative-cdevents.dev"

// runs are the CustomRuns of the cluster, while the CRD exists and access is allowed. An
// informer cannot restart, so there is a new one each time the CRD appears.
type runs struct {
	client  dynamic.Interface
	current atomic.Pointer[cache.SharedIndexInformer]
	// refused is true once the missing permission was logged.
	refused atomic.Bool
}

func newRuns(c dynamic.Interface) *runs {
	r := &runs{client: c}
	r.renew()
	return r
}

func (r *runs) informer() cache.SharedIndexInformer { return *r.current.Load() }

func (r *runs) renew() cache.SharedIndexInformer {
	informer := dynamicinformer.NewFilteredDynamicInformer(r.client, customrun.Resource, metav1.NamespaceAll, 0,
		cache.Indexers{byGate: indexByGate}, nil).Informer()
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
	r.renew() // drop the cache of the deleted kind
	return nil
}

// refusedPause is the delay between requests while access is forbidden.
const refusedPause = time.Minute

// failed handles errors of lists and watches. It logs missing permissions once: they
// belong to config/tekton, which is optional.
func (r *runs) failed(ctx context.Context, of *cache.Reflector, err error) {
	if !apierrors.IsForbidden(err) {
		cache.DefaultWatchErrorHandler(ctx, of, err)
		return
	}
	if !r.refused.Swap(true) {
		logging.FromContext(ctx).Warnw("Tekton is installed, but the controller may not read CustomRuns, so gates do not run for "+
			"them. To allow it, apply config/tekton/200-customruns.yaml. The controller tries again every minute", "error", err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(refusedPause):
	}
}

// slim strips CustomRuns that are not for a gate down to their names.
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
