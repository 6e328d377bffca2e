package oracle

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	serving "knative.dev/serving/pkg/client/clientset/versioned"
	"knative.dev/serving/pkg/client/informers/externalversions"
)

// rolloutInProgress is the reason of a Route that is not Ready for no other cause than its gradual rollout.
const rolloutInProgress = "RolloutInProgress"

// Watch begins to note what happens in a namespace, until ctx ends.
func Watch(ctx context.Context, client serving.Interface, namespace string) (*History, error) {
	h := &History{lives: map[types.UID]*Life{}}
	factory := externalversions.NewSharedInformerFactoryWithOptions(client, 0, externalversions.WithNamespace(namespace))
	v1 := factory.Serving().V1()
	services, serr := v1.Services().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: h.service,
		UpdateFunc: func(before, after any) {
			// After a relist, one Service may stand in another's place.
			if b, a := before.(*servingv1.Service), after.(*servingv1.Service); b.UID != a.UID { //nolint:errcheck,forcetypeassert // of this informer
				h.gone(b)
			}
			h.service(after)
		},
		DeleteFunc: h.gone,
	})
	routes, rerr := v1.Routes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    h.route,
		UpdateFunc: func(_, after any) { h.route(after) },
	})
	if err := errors.Join(serr, rerr); err != nil {
		return nil, fmt.Errorf("watching the Services of %s: %w", namespace, err)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), services.HasSynced, routes.HasSynced) {
		return nil, fmt.Errorf("watching the Services of %s: %w", namespace, context.Cause(ctx))
	}
	return h, nil
}

func (h *History) service(obj any) {
	s, ok := obj.(*servingv1.Service)
	if !ok {
		return
	}
	h.note(s.UID, func(l *Life, now time.Time) {
		l.Name = types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
		if l.Ready.IsZero() && s.IsReady() {
			l.Ready = now
		}
	})
}

func (h *History) gone(obj any) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	if s, ok := obj.(*servingv1.Service); ok {
		h.note(s.UID, func(l *Life, now time.Time) { l.Gone = now })
	}
}

// route notes the split that is in force, or that it is no more.
func (h *History) route(obj any) {
	r, ok := obj.(*servingv1.Route)
	if !ok {
		return
	}
	owner := metav1.GetControllerOf(r)
	if owner == nil {
		return
	}
	split := effective(r)
	h.note(owner.UID, func(l *Life, now time.Time) {
		l.Name = types.NamespacedName{Namespace: r.Namespace, Name: owner.Name}
		n := len(l.Splits)
		switch {
		case !l.Gone.IsZero():
		case split == "":
			if n > 0 && l.Splits[n-1].Until.IsZero() {
				l.Splits[n-1].Until = now
			}
		case n > 0 && l.Splits[n-1].Split == split:
			l.Splits[n-1].Until = time.Time{} // it is again, or still
		default:
			l.Splits = append(l.Splits, Moment{Split: split, From: now})
		}
	})
}

// effective is the split of a Route that has taken up what was asked for last, and sends requests that way or is on
// its way there step by step. It is empty where that is not so.
func effective(r *servingv1.Route) Split {
	ingress := r.Status.GetCondition(servingv1.RouteConditionIngressReady)
	inProgress := ingress != nil && ingress.Reason == rolloutInProgress
	if r.Status.ObservedGeneration != r.Generation || !r.IsReady() && !inProgress {
		return ""
	}
	percent := map[string]int64{}
	for _, t := range r.Status.Traffic {
		if t.Percent != nil {
			percent[t.RevisionName] += *t.Percent
		}
	}
	if !r.IsReady() && len(percent) == 1 {
		return "" // what is asked for, and no step: a rollout that goes on has two Revisions at least
	}
	return NewSplit(percent)
}
