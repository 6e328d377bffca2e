// SPDX-License-Identifier: Apache-2.0

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

// rolloutInProgress is the reason of a Route that is not Ready only because of a gradual rollout.
const rolloutInProgress = "RolloutInProgress"

// Watch records what happens in a namespace until ctx ends.
func Watch(ctx context.Context, client serving.Interface, namespace string) (*History, error) {
	h := &History{lives: map[types.UID]*Life{}}
	factory := externalversions.NewSharedInformerFactoryWithOptions(client, 0, externalversions.WithNamespace(namespace))
	v1 := factory.Serving().V1()
	services, serr := v1.Services().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: h.service,
		UpdateFunc: func(before, after any) {
			// After a relist, a recreated Service may appear as an update.
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

// route records the split in effect, or its end.
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
			l.Splits[n-1].Until = time.Time{} // it is effective again, or still
		default:
			l.Splits = append(l.Splits, Moment{Split: split, From: now})
		}
	})
}

// effective returns the split of a Route that has processed its latest spec, and whose traffic is assigned and in the
// ingress, or in a gradual rollout. It is empty otherwise.
func effective(r *servingv1.Route) Split {
	ingress := r.Status.GetCondition(servingv1.RouteConditionIngressReady)
	inProgress := ingress != nil && ingress.Reason == rolloutInProgress
	inForce := ingress.IsTrue() && r.Status.GetCondition(servingv1.RouteConditionAllTrafficAssigned).IsTrue()
	if r.Status.ObservedGeneration != r.Generation || !inForce && !inProgress {
		return ""
	}
	percent := map[string]int64{}
	for _, t := range r.Status.Traffic {
		if t.Percent != nil {
			percent[t.RevisionName] += *t.Percent
		}
	}
	if !inForce && len(percent) == 1 {
		return "" // the target, not a step: a rollout in progress has at least two Revisions
	}
	return NewSplit(percent)
}
