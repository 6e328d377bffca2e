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

// page is how many objects are listed at once. Most have a few KiB. But a CDEventSubject has half a MiB while a sink
// does not answer for long, a Service may have more, and what is read takes three times as much for a moment. Several
// rings may list at once.
const page = 10

// Sweep looks for whatever nobody has asked for: it lists every source, every Service and every CDEventSubject, visits
// the Services that something may have to be done about, and counts what is pending for each source. The first takes
// the baseline: what is older is not announced. It wakes what measures if there is anything to measure.
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
	restless, counted, err := c.restless(ctx, sources)
	errs := []error{resolving, measuring, err, c.visit(ctx, restless, c.swept)}
	if len(restless) > 0 || err != nil {
		counted = tallies{} // the visits have changed what is pending
		err = c.entries(ctx, "", counted.add)
		errs = append(errs, err)
	}
	if err == nil {
		// What could not be done about one Service says nothing about the sources of the others.
		sources, err := c.allSources(ctx)
		if err == nil {
			c.counted.Store(counted.standings(sources))
			err = c.resolve(ctx, sources, every, counted)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
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
	keys, listing := c.chosen(ctx, func(e *v1alpha1.CDEventSubject) bool {
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
	return errors.Join(resolving, listing, c.visit(ctx, keys, c.swept))
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

// chosen returns the Services of the chosen CDEventSubjects.
func (c *Core) chosen(ctx context.Context, choose func(*v1alpha1.CDEventSubject) bool,
) ([]types.NamespacedName, error) {
	keys := map[types.NamespacedName]bool{}
	err := c.entries(ctx, "", func(e *v1alpha1.CDEventSubject) {
		key := types.NamespacedName{Namespace: e.Spec.Namespace, Name: e.Spec.Name}
		if choose(e) && ledger.KeyOf(e.Spec) == keyOf(key) {
			keys[key] = true
		}
	})
	return inOrder(keys), err
}

// entries calls a function for the CDEventSubjects that a field selector selects.
func (c *Core) entries(ctx context.Context, selector string, each func(*v1alpha1.CDEventSubject)) error {
	return pages(func(opts metav1.ListOptions) (metav1.ListInterface, error) {
		opts.FieldSelector = selector
		list, err := c.Subjects.List(ctx, opts)
		if err != nil {
			return nil, fmt.Errorf("listing CDEventSubjects: %w", err)
		}
		for i := range list.Items {
			each(&list.Items[i])
		}
		return list, nil
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

// pages calls a function for each page of a list. It must not take long: the API server forgets the list after some
// minutes.
func pages(one func(metav1.ListOptions) (metav1.ListInterface, error)) error {
	for opts := (metav1.ListOptions{Limit: page}); ; {
		list, err := one(opts)
		if err != nil {
			return err
		}
		if opts.Continue = list.GetContinue(); opts.Continue == "" {
			return nil
		}
	}
}
