// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// serverlessStart compares how long an event takes when the core is scaled to zero with Serving's own cold start of a
// program that does nothing, in turns. It prints the medians: a busy machine says nothing about either.
func serverlessStart(t *testing.T) {
	const rounds = 10
	ctx := t.Context()
	// Both scale to zero in seconds, and start no faster.
	setConfig(t, "knative-serving", "config-autoscaler", map[string]string{
		"allow-zero-initial-scale": "true", "stable-window": "10s", "scale-to-zero-grace-period": "6s",
	})
	s := newScene(t)
	s.must(kit.Wait(ctx, 5*time.Minute, "earlier namespaces to be deleted", func(ctx context.Context) error {
		list, err := suite.Kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, ns := range list.Items {
			if ns.DeletionTimestamp != nil {
				return kit.NotYet("%s is not", ns.Name)
			}
		}
		return nil
	}))
	s.source("source", service("sink"))
	s.must(s.podless(ctx, "shop"))
	s.tells(birth, about("shop")) // otherwise, one look may see both Revisions Ready, and tell of them first
	s.must(moves(2, both(version("two"), pinned(100, 1)))(ctx, s, "shop"))
	s.deploy("empty")
	in, err := suite.Services.Ingress(ctx)
	s.must(err)
	empty, err := suite.Serving.ServingV1().Services(s.ns).Get(ctx, "empty", metav1.GetOptions{})
	s.must(err)
	want := slices.Concat(birth, []string{revisionReady})
	s.tells(want, about("shop"))

	var core, own, inForce []time.Duration
	for i := range rounds {
		s.must(kit.Wait(ctx, 3*time.Minute, "core and program to be scaled to zero", func(ctx context.Context) error {
			cores, err := suite.Serverless.Cores(ctx)
			if err != nil {
				return err
			}
			pods, err := suite.Kube.CoreV1().Pods(s.ns).List(ctx, metav1.ListOptions{LabelSelector: "serving.knative.dev/service=empty"})
			if err != nil {
				return err
			}
			if n, m := len(cores), len(pods.Items); n > 0 || m > 0 {
				return kit.NotYet("they have %d and %d pods", n, m)
			}
			return nil
		}))
		starts := func() {
			began := time.Now()
			if _, err := in.Get(ctx, empty.Status.URL.URL()); err != nil {
				t.Fatal(err)
			}
			own = append(own, time.Since(began))
		}
		if i%2 == 0 {
			starts()
		}
		began, share := time.Now(), 10+i
		s.must(suite.Services.Update(ctx, s.ns, "shop", pinned(100-share, 1, share, 2)))
		s.must(s.hasShare(ctx, "shop", int64(share)))
		inForce = append(inForce, time.Since(began))
		want = append(want, shifted)
		got := s.tells(want, about("shop"))
		core = append(core, got[len(got)-1].Time.Sub(began))
		if i%2 == 1 {
			starts()
		}
		say("round %d: change to event %s (in force after %s), cold start of an empty program %s", i+1, millis(core[i]), millis(inForce[i]), millis(own[i]))
	}
	a, b := median(core), median(own)
	say("from zero, %d each: change to event p50 %s (in force p50 %s), Serving's cold start of an empty program p50 %s; ratio %.2f",
		rounds, millis(a), millis(median(inForce)), millis(b), float64(a)/float64(b))
}

// hasShare waits until the second Revision of a Service has that share.
func (s *scene) hasShare(ctx context.Context, name string, percent int64) error {
	return kit.Wait(ctx, patience, fmt.Sprintf("a share of %d %%", percent), func(ctx context.Context) error {
		route, err := suite.Serving.ServingV1().Routes(s.ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, t := range route.Status.Traffic {
			if t.Percent != nil && *t.Percent == percent && route.IsReady() {
				return nil
			}
		}
		return kit.NotYet("the traffic is %s", compact(route.Status.Traffic))
	})
}

func median(all []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

func millis(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
