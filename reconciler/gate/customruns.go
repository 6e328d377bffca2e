package gate

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate/customrun"
)

// CustomRuns makes the controller that runs gates for Tekton, as soon as there is one.
func (g *Gate) CustomRuns(ctx context.Context) *controller.Impl {
	impl := g.controller(ctx, "customruns", &customRuns{g}, g.runs.informer)
	look := func(obj any) {
		impl.Enqueue(obj)
		if namespace, name, ok := strings.Cut(gateOf(obj), "/"); ok {
			g.changed(types.NamespacedName{Namespace: namespace, Name: name})
		}
	}
	handler := cache.FilteringResourceEventHandler{
		FilterFunc: func(obj any) bool {
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			u, ok := obj.(*unstructured.Unstructured)
			return ok && customrun.Ours(u)
		},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    look,
			UpdateFunc: controller.PassNew(look),
			DeleteFunc: func(obj any) {
				if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
					obj = last.Obj
				}
				if u, ok := obj.(*unstructured.Unstructured); ok {
					g.Metrics.deleted(u.GetUID())
				}
			},
		},
	}
	go g.Presence.While(ctx, []string{customrun.Definition}, func(ctx context.Context) {
		if err := g.runs.watch(ctx, handler); err != nil {
			logging.FromContext(ctx).Errorw("CustomRuns cannot be watched", "error", err)
		}
	}, func() {})
	return impl
}

type customRuns struct{ *Gate }

// Reconcile takes one CustomRun as far as it comes.
func (c *customRuns) Reconcile(ctx context.Context, key string) error {
	obj, ok, err := c.runs.informer().GetStore().GetByKey(key)
	if err != nil || !ok || c.stopping() {
		return nil //nolint:nilerr // a key that is none is of no object
	}
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || !customrun.Ours(u) || u.GetDeletionTimestamp() != nil {
		return nil
	}
	run, err := customrun.Read(u)
	if err != nil {
		return controller.NewPermanentError(err)
	}
	w := &work{customRuns: c, run: run, was: *run.Status.DeepCopy(), object: u}
	return w.do(ctx)
}

// work is one look at one CustomRun.
type work struct {
	*customRuns
	run    *customrun.Run
	was    customrun.Status
	object *unstructured.Unstructured
	// asked, or wrong with what is asked; gate is nil if there is none.
	asked *customrun.Asked
	wrong *customrun.Problem
	gate  *v1alpha1.CanaryGate
	// judged is the run so far, as it is kept; nil before the first. garbled is why what
	// a release before kept cannot be read.
	judged  *v1alpha1.GateRun
	garbled error
	// now is the run after this look.
	now *v1alpha1.GateRun
}

func (w *work) owner() owner {
	return owner{Kind: ofCustomRun, Namespace: w.run.Namespace, Name: w.run.Name, UID: w.run.UID}
}

func (w *work) do(ctx context.Context) error {
	if err := w.read(ctx); err != nil {
		return w.later(ctx, "CustomRun", err)
	}
	if !w.Leads(w.service()) {
		return nil // whoever leads for the Service works on it
	}
	if w.run.Done() {
		return w.over()
	}
	if err := w.recall(ctx); err != nil {
		return w.later(ctx, "CustomRun", err)
	}
	if !w.Leads(w.service()) {
		return nil // it began with another Service
	}
	wait, err := w.proceed(ctx)
	if err != nil {
		return controller.NewPermanentError(err)
	}
	if err := w.record(ctx); err != nil {
		return w.later(ctx, "CustomRun", err)
	}
	if err := w.write(ctx); err != nil {
		return w.later(ctx, "CustomRun", err)
	}
	if w.run.Done() {
		told := w.over()
		if err := w.records.drop(ctx, w.owner()); err != nil {
			return w.later(ctx, "CustomRun", err) // or the patrol does it
		}
		return told
	}
	if !w.tell(w.run.Status) {
		wait = min(wait, waiting)
	}
	return w.requeue(wait)
}

// over tells of a run that is over, and comes again if that is too early.
func (w *work) over() error {
	if w.tell(w.run.Status) {
		return nil
	}
	return w.requeue(waiting)
}

// read finds out what is asked for, and what was judged so far.
func (w *work) read(ctx context.Context) error {
	w.judged, w.garbled = w.run.Status.GateRun()
	if w.asked, w.wrong = w.run.Ask(); w.wrong != nil {
		return nil
	}
	var err error
	w.gate, err = w.find(ctx, w.run.Namespace, w.asked.Gate)
	return err
}

// recall finds the run that is kept. In a status there is one only where a release before
// has left it.
func (w *work) recall(ctx context.Context) error {
	kept, err := w.records.get(ctx, w.owner())
	switch {
	case err != nil:
		return err
	case kept != nil:
		w.judged, w.garbled = kept, nil
	case w.judged != nil && w.judged.Spec == nil:
		w.judged = nil // it was lost, and begins anew
	}
	return nil
}

// record keeps the run, if it has changed. One that begins does so by what is there now,
// and not by a cache that has not heard of its end.
func (w *work) record(ctx context.Context) error {
	if w.now == nil || w.judged != nil && equality.Semantic.DeepEqual(w.judged, w.now) && w.records.cached(w.owner().name()) != nil {
		return nil
	}
	if w.judged == nil {
		if w.now.CompletionTime != nil {
			return nil // there is nothing to go on with
		}
		is, err := w.Runs.Resource(customrun.Resource).Namespace(w.run.Namespace).Get(ctx, w.run.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading CustomRun %s/%s: %w", w.run.Namespace, w.run.Name, err)
		}
		if is.GetUID() != w.run.UID || is.GetResourceVersion() != w.run.ResourceVersion {
			return errMoved
		}
	}
	return w.records.put(ctx, w.owner(), w.now)
}

// service whose leader works on the run. Where nothing says it, any name is as good.
func (w *work) service() types.NamespacedName {
	key := types.NamespacedName{Namespace: w.run.Namespace, Name: w.run.Name}
	switch {
	case w.judged != nil && w.judged.Service.Name != "":
		key.Name = w.judged.Service.Name
	case w.asked != nil && w.asked.Service(w.gate) != "":
		key.Name = w.asked.Service(w.gate)
	}
	return key
}
