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

// CustomRuns are Tekton's.
var CustomRuns = schema.GroupVersionResource{Group: "tekton.dev", Version: "v1beta1", Resource: "customruns"}

// GateRuns remembers which CustomRuns name something of ours.
type GateRuns struct {
	mu   sync.Mutex
	seen map[types.NamespacedName]bool
}

// lookAgain is how long it takes at most until it is noticed that Tekton was installed.
const lookAgain = time.Second

// WatchGateRuns follows the CustomRuns of all namespaces until ctx ends, from when there are any.
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

// follow lists and watches, until one of the two does not go on: the kind may not be there yet.
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

// Ours says whether a CustomRun names a gate, or did.
func (g *GateRuns) Ours(namespace, name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen[types.NamespacedName{Namespace: namespace, Name: name}]
}
