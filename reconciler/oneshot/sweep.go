// SPDX-License-Identifier: Apache-2.0

package oneshot

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/reconciler/service"
	"github.com/knative-cdevents/knative-cdevents/reconciler/source"
)

// page is how many objects are listed at once. A CDEventSubject has a few KiB, and half a MiB at most.
const page = 100

// Sweep visits every source and every Service, and every CDEventSubject whose Service is gone. It finds whatever nobody
// has asked for, and counts what is pending for each source. The first one takes the baseline: what is older is not
// announced. It wakes what measures if there is anything to measure.
func (c *Core) Sweep(ctx context.Context) error {
	if _, err := c.Baselines.Since(ctx, service.Resource); err != nil {
		return fmt.Errorf("taking the baseline: %w", err)
	}
	sources, err := c.allSources(ctx)
	if err != nil {
		return err
	}
	every := func(*v1alpha1.CDEventSource) bool { return true }
	resolving := c.resolve(ctx, sources, every, nil)
	var measuring error
	if c.Measuring != nil {
		measuring = c.Measuring.Everything(ctx)
	}
	visited := map[types.NamespacedName]bool{}
	err = pages(func(opts metav1.ListOptions) (metav1.ListInterface, error) {
		list, err := c.Serving.ServingV1().Services(metav1.NamespaceAll).List(ctx, opts)
		if err != nil {
			f, err := missing(err)
			if f.unserved {
				return &metav1.ListMeta{}, nil // each entry is visited below
			}
			return nil, err
		}
		var keys []types.NamespacedName
		for i := range list.Items {
			key := types.NamespacedName{Namespace: list.Items[i].Namespace, Name: list.Items[i].Name}
			visited[key] = true
			keys = append(keys, key)
		}
		return list, c.visit(ctx, keys, c.swept)
	})
	counted := tallies{}
	rest := c.visitEntries(ctx, visited, func(e *v1alpha1.CDEventSubject) bool {
		counted.add(e)
		return true
	})
	if err := errors.Join(resolving, err, rest, measuring); err != nil {
		return err
	}
	if sources, err = c.allSources(ctx); err != nil {
		return err
	}
	c.counted.Store(counted.standings(sources))
	return c.resolve(ctx, sources, every, counted)
}

// Source takes a source that was created, changed or deleted. It updates its status, and visits the Services of which
// something is pending for it, or whose present state it is to receive.
func (c *Core) Source(ctx context.Context, name types.NamespacedName) error {
	all, err := c.allSources(ctx)
	if err != nil {
		return err
	}
	exists := map[types.UID]bool{}
	var it *v1alpha1.CDEventSource
	for _, s := range all {
		if exists[s.UID] = true; s.Namespace == name.Namespace && s.Name == name.Name {
			it = s
		}
	}
	resolving := c.resolve(ctx, all, func(s *v1alpha1.CDEventSource) bool { return s == it }, nil)
	visiting := c.visitEntries(ctx, map[types.NamespacedName]bool{}, func(e *v1alpha1.CDEventSubject) bool {
		for _, j := range e.Status.Journal {
			for _, r := range j.Recipients {
				if !exists[r.Source] || it != nil && r.Source == it.UID {
					return true
				}
			}
		}
		return it != nil && it.Spec.Replay == v1alpha1.ReplayCurrent && !slices.Contains(e.Status.Replayed, it.UID) &&
			(it.Namespace == e.Spec.Namespace || it.Namespace == c.SystemNamespace)
	})
	return errors.Join(resolving, visiting)
}

// allSources reads the sources of all namespaces.
func (c *Core) allSources(ctx context.Context) (all []*v1alpha1.CDEventSource, err error) {
	err = pages(func(opts metav1.ListOptions) (metav1.ListInterface, error) {
		list, err := c.Sources(ctx, metav1.NamespaceAll, opts)
		if err != nil {
			return nil, fmt.Errorf("listing CDEventSources: %w", err)
		}
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
		return list, nil
	})
	return all, err
}

// resolve updates the status of the chosen sources.
func (c *Core) resolve(ctx context.Context, all []*v1alpha1.CDEventSource, choose func(*v1alpha1.CDEventSource) bool,
	deliveries source.Deliveries,
) error {
	neighbours := map[string][]*v1alpha1.CDEventSource{}
	for _, s := range all {
		neighbours[s.Namespace] = append(neighbours[s.Namespace], s)
	}
	var errs []error
	for _, s := range all {
		if !choose(s) {
			continue
		}
		if err := c.Resolve(ctx, s, neighbours[s.Namespace], deliveries); err != nil {
			errs = append(errs, fmt.Errorf("updating the status of CDEventSource %s/%s: %w", s.Namespace, s.Name, err))
		}
	}
	return errors.Join(errs...)
}

// visitEntries visits the Services of the chosen CDEventSubjects that are not visited yet.
func (c *Core) visitEntries(ctx context.Context, visited map[types.NamespacedName]bool,
	choose func(*v1alpha1.CDEventSubject) bool,
) error {
	return pages(func(opts metav1.ListOptions) (metav1.ListInterface, error) {
		list, err := c.Subjects.List(ctx, opts)
		if err != nil {
			return nil, fmt.Errorf("listing CDEventSubjects: %w", err)
		}
		keys := map[types.NamespacedName]bool{}
		for i := range list.Items {
			e := &list.Items[i]
			key := types.NamespacedName{Namespace: e.Spec.Namespace, Name: e.Spec.Name}
			if choose(e) && ledger.KeyOf(e.Spec) == keyOf(key) && !visited[key] {
				visited[key], keys[key] = true, true
			}
		}
		return list, c.visit(ctx, inOrder(keys), c.swept)
	})
}

// swept processes a Service, and wakes what measures if it declares a stateful cluster.
func (c *Core) swept(ctx context.Context, service types.NamespacedName) error {
	out, err := c.Process(ctx, service)
	if out.Stateful && c.Measuring != nil {
		err = errors.Join(err, c.Measuring.Stateful(ctx, service))
	}
	return err
}

// visit calls a function for each Service. One that cannot be processed keeps no other.
func (c *Core) visit(ctx context.Context, keys []types.NamespacedName,
	each func(context.Context, types.NamespacedName) error,
) error {
	work := make([]func() error, len(keys))
	for i, key := range keys {
		work[i] = func() error {
			if err := context.Cause(ctx); err != nil {
				return fmt.Errorf("visiting Service %s: %w", key, err)
			}
			return each(ctx, key)
		}
	}
	return parallel(c.Parallel, work)
}

// pages calls a function for each page of a list. It goes on after an error about what is on a page, which comes with
// the list.
func pages(one func(metav1.ListOptions) (metav1.ListInterface, error)) error {
	var errs []error
	for opts := (metav1.ListOptions{Limit: page}); ; {
		list, err := one(opts)
		if err != nil {
			errs = append(errs, err)
		}
		if list == nil || list.GetContinue() == "" {
			return errors.Join(errs...)
		}
		opts.Continue = list.GetContinue()
	}
}
