package gate

import (
	"context"

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
	handler := cache.FilteringResourceEventHandler{
		FilterFunc: func(obj any) bool {
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			u, ok := obj.(*unstructured.Unstructured)
			return ok && customrun.Ours(u)
		},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    impl.Enqueue,
			UpdateFunc: controller.PassNew(impl.Enqueue),
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
	// judged is the run so far; nil before the first.
	judged  *v1alpha1.GateRun
	garbled error
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
	wait, err := w.proceed(ctx)
	if err != nil {
		return controller.NewPermanentError(err)
	}
	if err := w.write(ctx); err != nil {
		return w.later(ctx, "CustomRun", err)
	}
	if w.run.Done() {
		return w.over()
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
