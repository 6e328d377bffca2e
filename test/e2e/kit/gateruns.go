// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// CustomRuns is Tekton's resource.
var CustomRuns = schema.GroupVersionResource{Group: "tekton.dev", Version: "v1beta1", Resource: "customruns"}

// GateRuns records which CustomRuns refer to a CanaryGate.
type GateRuns struct {
	mu   sync.Mutex
	seen map[types.NamespacedName]bool
}

// lookAgain bounds the time until an installation of Tekton is noticed.
const lookAgain = time.Second

// WatchGateRuns watches the CustomRuns of all namespaces until ctx ends. The kind may be installed later.
func WatchGateRuns(ctx context.Context, client dynamic.Interface) *GateRuns {
	g := &GateRuns{seen: map[types.NamespacedName]bool{}}
	go func() {
		for ctx.Err() == nil {
			g.follow(ctx, client)
			select {
			case <-ctx.Done():
			case <-time.After(lookAgain):
			}
		}
	}()
	return g
}

// follow lists and watches until either fails, as it does while the kind is not installed.
func (g *GateRuns) follow(ctx context.Context, client dynamic.Interface) {
	list, err := client.Resource(CustomRuns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for i := range list.Items {
		g.note(&list.Items[i])
	}
	w, err := client.Resource(CustomRuns).Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		return
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		g.note(e.Object)
	}
}

func (g *GateRuns) note(o runtime.Object) {
	run, ok := o.(*unstructured.Unstructured)
	if !ok {
		return
	}
	for _, field := range []string{"customRef", "customSpec"} {
		version, _, err := unstructured.NestedString(run.Object, "spec", field, "apiVersion")
		if err == nil && strings.HasPrefix(version, v1alpha1.GroupName+"/") {
			g.mu.Lock()
			g.seen[types.NamespacedName{Namespace: run.GetNamespace(), Name: run.GetName()}] = true
			g.mu.Unlock()
		}
	}
}

// Ours reports whether a CustomRun refers to a gate, or did before it was deleted.
func (g *GateRuns) Ours(namespace, name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen[types.NamespacedName{Namespace: namespace, Name: name}]
}
