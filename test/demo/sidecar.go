// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// Requests of each cart, sent at once, with which the demo shows how many pods handle a cart.
const (
	spreadCarts    = 3
	spreadRequests = 12
	spreadTakes    = 100 * time.Millisecond
)

// withoutSidecar deploys the application without its sidecar, and returns how many pods handled each cart; nil if the
// demo has no sidecar.
func (d *demo) withoutSidecar(ctx context.Context) ([]int, error) {
	if !d.sidecar {
		return nil, nil
	}
	if err := d.kit.Services.Delete(ctx, namespace, cart); err != nil {
		return nil, err
	}
	c := d.cart().Bare()
	done := d.out.doing("deploying " + cart + " without the sidecar, to see how many pods handle the requests of one cart")
	if err := d.kit.Carts.DeployAlone(ctx, c); err != nil {
		return nil, err
	}
	clients, err := d.kit.Carts.Clients(ctx, c)
	if err != nil {
		return nil, err
	}
	var pods []int
	err = kit.Wait(ctx, time.Minute, "answers of "+cart, func(ctx context.Context) error {
		seen, err := spread(ctx, clients)
		if err != nil {
			return kit.NotYet("%v", err) // the ingress may not know it yet
		}
		pods = seen
		return nil
	})
	if err != nil {
		return nil, err
	}
	done("a request is handled where it enters")
	return pods, nil
}

// showSpread shows how many pods handle a cart without the sidecar, and with it.
func (d *demo) showSpread(ctx context.Context, clients *kit.Clients, before []int) error {
	if before == nil {
		return nil
	}
	with, err := spread(ctx, clients)
	if err != nil {
		return err
	}
	d.out.spread(before, with)
	return nil
}

// spread returns how many pods handle the requests of each cart that come at once.
func spread(ctx context.Context, clients *kit.Clients) ([]int, error) {
	var handled [spreadCarts][spreadRequests]string
	group, ctx := errgroup.WithContext(ctx)
	for n := range spreadCarts {
		for i := range spreadRequests {
			group.Go(func() error {
				a, err := clients.Hold(ctx, n, spreadTakes)
				handled[n][i] = a.Handled.Pod
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("sending requests for carts at once: %w", err)
	}
	out := make([]int, spreadCarts)
	for n := range handled {
		pods := map[string]bool{}
		for _, pod := range handled[n] {
			pods[pod] = true
		}
		out[n] = len(pods)
	}
	return out, nil
}

// spread prints how many pods handle a cart.
func (s *screen) spread(without, with []int) {
	s.line("\n  %d requests for each of these carts, sent at once: how many pods handled them", spreadRequests)
	s.line("    %-14s %20s %18s", "cart", "without the sidecar", "with the sidecar")
	for n := range with {
		s.line("    %-14s %20d %18d", fmt.Sprintf("cart-%d", n), without[n], with[n])
	}
}
