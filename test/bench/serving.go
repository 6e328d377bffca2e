// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	"knative.dev/serving/pkg/client/clientset/versioned"
)

// seeders is the number of concurrent writers; more would not be faster on a small machine.
const seeders = 32

// cast stands in for Serving's controllers, which do not run here: it writes their objects with status.
type cast struct {
	client versioned.Interface
	// probe is a Service whose changes show that a contestant is ready. No scenario changes it.
	probe *actor
	// actors are the Services that scenarios change.
	actors []*actor
}

// actor is one Service, as last written.
type actor struct {
	mu      sync.Mutex
	route   *servingv1.Route
	percent int64
}

// grow adds Services, each with a Route and Revisions, up to that number, and reports progress.
func (c *cast) grow(ctx context.Context, services, revisions int, progress func(done int)) error {
	have := len(c.actors)
	if services <= have {
		return nil
	}
	c.actors = append(c.actors, make([]*actor, services-have)...)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(seeders)
	for i := have; i < services && ctx.Err() == nil; i++ {
		progress(i)
		group.Go(func() (err error) {
			c.actors[i], err = c.create(ctx, fmt.Sprintf("service-%05d", i), revisions)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("writing %d Services with %d Revisions each: %w", services, revisions, err)
	}
	progress(services)
	return nil
}

// create writes a Service and its objects in Serving's order.
func (c *cast) create(ctx context.Context, name string, revisions int) (*actor, error) {
	v1 := c.client.ServingV1()
	svc, err := serviceObject(name)
	if err != nil {
		return nil, err
	}
	if svc, err = v1.Services(namespace).Create(ctx, svc, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating Service %s: %w", name, err)
	}
	for generation := 1; generation <= revisions; generation++ {
		rev, err := v1.Revisions(namespace).Create(ctx, revisionObject(svc, generation), metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("creating Revision %d of %s: %w", generation, name, err)
		}
		revisionStatus(rev)
		if _, err := v1.Revisions(namespace).UpdateStatus(ctx, rev, metav1.UpdateOptions{}); err != nil {
			return nil, fmt.Errorf("writing the status of Revision %s: %w", rev.Name, err)
		}
	}
	route, err := v1.Routes(namespace).Create(ctx, routeObject(svc), metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating Route %s: %w", name, err)
	}
	routeStatus(route, 0)
	if route, err = v1.Routes(namespace).UpdateStatus(ctx, route, metav1.UpdateOptions{}); err != nil {
		return nil, fmt.Errorf("writing the status of Route %s: %w", name, err)
	}
	serviceStatus(svc)
	if _, err := v1.Services(namespace).UpdateStatus(ctx, svc, metav1.UpdateOptions{}); err != nil {
		return nil, fmt.Errorf("writing the status of Service %s: %w", name, err)
	}
	return &actor{route: route}, nil
}

// splits is the number of different splits of a Service before one is repeated. Both Revisions always have a share: all
// traffic on one of them would be an upgrade or a rollback.
const splits = 98

// shift gives a Service its next traffic split.
func (c *cast) shift(ctx context.Context, a *actor) (commit, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	percent := a.percent%splits + 1
	route := a.route.DeepCopy()
	route.Status.Traffic = traffic(route.Name, percent)
	began := time.Now()
	written, err := c.client.ServingV1().Routes(namespace).UpdateStatus(ctx, route, metav1.UpdateOptions{})
	done := time.Now()
	if err != nil {
		return commit{}, fmt.Errorf("writing the split of Route %s: %w", route.Name, err)
	}
	a.route, a.percent = written, percent
	return commit{change{route.Name, percent}, began, done, done}, nil
}

// sizes returns the sizes of a Service's objects in the API server, in bytes of JSON.
func (c *cast) sizes(ctx context.Context) (service, route, revision int, err error) {
	name := c.probe.route.Name
	v1 := c.client.ServingV1()
	svc, err := v1.Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return 0, 0, 0, fmt.Errorf("reading Service %s: %w", name, err)
	}
	rev, err := v1.Revisions(namespace).Get(ctx, newer(name), metav1.GetOptions{})
	if err != nil {
		return 0, 0, 0, fmt.Errorf("reading Revision %s: %w", newer(name), err)
	}
	sizes := make([]int, 0, 3)
	for _, o := range []any{svc, c.probe.route, rev} {
		raw, err := json.Marshal(o)
		if err != nil {
			return 0, 0, 0, fmt.Errorf("encoding an object of Service %s: %w", name, err)
		}
		sizes = append(sizes, len(raw))
	}
	return sizes[0], sizes[1], sizes[2], nil
}
