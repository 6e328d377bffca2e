// SPDX-License-Identifier: Apache-2.0

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

// CustomRuns returns the controller that runs gates for Tekton, once Tekton is installed. A gate whose CustomRun has
// changed is synced by the controller of gates.
func (g *Gate) CustomRuns(ctx context.Context, gates *controller.Impl) *controller.Impl {
	impl := g.controller(ctx, "customruns", &customRuns{g}, g.runs.informer)
	enqueueGate := func(obj any) {
		if namespace, name, ok := strings.Cut(gateOf(obj), "/"); ok {
			gates.EnqueueKey(types.NamespacedName{Namespace: namespace, Name: name})
		}
	}
	enqueue := func(obj any) {
		impl.Enqueue(obj)
		enqueueGate(obj)
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
			AddFunc:    enqueue,
			UpdateFunc: controller.PassNew(enqueue),
			DeleteFunc: func(obj any) {
				if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
					obj = last.Obj
				}
				if u, ok := obj.(*unstructured.Unstructured); ok {
					g.Metrics.forgetRun(u.GetUID())
					enqueueGate(u)
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

// Reconcile syncs one CustomRun.
func (c *customRuns) Reconcile(ctx context.Context, key string) error {
	obj, ok, err := c.runs.informer().GetStore().GetByKey(key)
	if err != nil || !ok || c.stopping() {
		return nil //nolint:nilerr // an invalid key names no object
	}
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || !customrun.Ours(u) || u.GetDeletionTimestamp() != nil {
		return nil
	}
	run, err := customrun.Read(u)
	if err != nil {
		return controller.NewPermanentError(err)
	}
	w := &customRunSync{customRuns: c, run: run, was: *run.Status.DeepCopy(), object: u}
	return w.do(ctx)
}

// customRunSync is one sync of one CustomRun.
type customRunSync struct {
	*customRuns
	run    *customrun.Run
	was    customrun.Status
	object *unstructured.Unstructured
	// request is what the CustomRun asks for, or problem why it is invalid. gate is nil
	// if it does not exist.
	request *customrun.Request
	problem *customrun.Problem
	gate    *v1alpha1.CanaryGate
	// template is what the gate refers to, read when a run begins; nil if it does not exist.
	template *v1alpha1.ClusterCanaryGateTemplate
	// stored is the stored run, nil before the first. Without a record, it is what the status shows of it, which
	// lacks the spec; storedErr is why that cannot be read.
	stored    *v1alpha1.GateRun
	storedErr error
	// now is the run after this sync.
	now *v1alpha1.GateRun
}

func (s *customRunSync) owner() owner {
	return owner{Kind: ofCustomRun, Namespace: s.run.Namespace, Name: s.run.Name, UID: s.run.UID}
}

func (s *customRunSync) do(ctx context.Context) error {
	if err := s.read(ctx); err != nil {
		return s.retry(ctx, "CustomRun", err)
	}
	if !s.Leader.IsLeaderFor(s.service()) {
		return nil // the leader of the Service works on it
	}
	if s.run.Done() {
		return s.reportEnd()
	}
	if err := s.load(ctx); err != nil {
		return s.retry(ctx, "CustomRun", err)
	}
	if !s.Leader.IsLeaderFor(s.service()) {
		return nil // it started with another Service
	}
	wait, err := s.proceed(ctx)
	if err != nil {
		return controller.NewPermanentError(err)
	}
	if s.stopping() {
		return nil
	}
	if err := s.store(ctx); err != nil {
		return s.retry(ctx, "CustomRun", err)
	}
	if err := s.write(ctx); err != nil {
		return s.retry(ctx, "CustomRun", err)
	}
	if s.run.Done() {
		reported := s.reportEnd()
		if err := s.records.finish(ctx, s.owner()); err != nil {
			return s.retry(ctx, "CustomRun", err)
		}
		return reported
	}
	if !s.report(s.run.Status) {
		wait = min(wait, pollInterval)
	}
	return controller.NewRequeueAfter(wait)
}

// reportEnd reports a completed run, and requeues if it is too early.
func (s *customRunSync) reportEnd() error {
	if s.report(s.run.Status) {
		return nil
	}
	return controller.NewRequeueAfter(pollInterval)
}

// read parses the request and the status.
func (s *customRunSync) read(ctx context.Context) error {
	s.stored, s.storedErr = s.run.Status.GateRun()
	if s.request, s.problem = s.run.Request(); s.problem != nil {
		return nil
	}
	var err error
	s.gate, err = s.find(ctx, s.run.Namespace, s.request.Gate)
	return err
}

// load reads the stored run.
func (s *customRunSync) load(ctx context.Context) error {
	kept, err := s.records.get(ctx, s.owner())
	switch {
	case err != nil:
		return err
	case kept != nil:
		s.stored, s.storedErr = kept, nil
	case s.stored != nil:
		s.stored = nil // the record is lost, so the run restarts
	}
	begins := s.stored == nil || s.stored.CompletionTime != nil && s.stored.ID != s.id()
	if s.problem != nil || !begins {
		return nil
	}
	// What a run begins with is frozen, and a refusal is final, so the caches must not be behind.
	if s.gate, err = s.Gate.read(ctx, s.run.Namespace, s.request.Gate); err != nil {
		return err
	}
	s.template, err = s.readTemplate(ctx, s.request.Template(s.gate))
	return err
}

// store stores a changed run. A new run first checks that the cache is not behind: the
// CustomRun may be complete already.
func (s *customRunSync) store(ctx context.Context) error {
	if s.now == nil ||
		s.stored != nil && equality.Semantic.DeepEqual(s.stored, s.now) && s.records.cached(s.owner().recordName()) != nil {
		return nil
	}
	if s.stored == nil {
		if s.now.CompletionTime != nil {
			return nil // nothing needs to continue
		}
		is, err := s.Runs.Resource(customrun.Resource).Namespace(s.run.Namespace).Get(ctx, s.run.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading CustomRun %s/%s: %w", s.run.Namespace, s.run.Name, err)
		}
		if is.GetUID() != s.run.UID || is.GetResourceVersion() != s.run.ResourceVersion {
			return errConflict
		}
	}
	return s.records.put(ctx, s.owner(), s.now)
}

// id returns the ID of the run of the present attempt.
func (s *customRunSync) id() string { return fmt.Sprintf("%s-%d", s.run.UID, s.run.Attempt()) }

// service returns the Service whose leader works on the run. If it is unknown, any name
// works.
func (s *customRunSync) service() types.NamespacedName {
	key := types.NamespacedName{Namespace: s.run.Namespace, Name: s.run.Name}
	switch {
	case s.stored != nil && s.stored.Service.Name != "":
		key.Name = s.stored.Service.Name
	case s.request != nil && s.request.Service(s.gate) != "":
		key.Name = s.request.Service(s.gate)
	}
	return key
}
