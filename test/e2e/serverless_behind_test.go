// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// atOnce is how many Services are changed at once.
const atOnce = 6

// setConfig sets values in a ConfigMap of the cluster until the test ends.
func setConfig(t *testing.T, namespace, name string, values map[string]string) {
	t.Helper()
	before, err := suite.Kube.CoreV1().ConfigMaps(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	old := map[string]string{}
	for key := range values {
		old[key] = before.Data[key] // an empty value removes the key
	}
	t.Cleanup(func() {
		if err := suite.SetConfig(context.WithoutCancel(t.Context()), namespace, name, old); err != nil {
			t.Error(err)
		}
	})
	if err := suite.SetConfig(t.Context(), namespace, name, values); err != nil {
		t.Fatal(err)
	}
}

// podless returns the sample application as a Service whose Revisions are Ready without a pod, which Serving must allow.
func podless(ns, name string) *servingv1.Service {
	app := kit.App(ns, name, suite.app, "one")
	app.Spec.Template.Annotations = map[string]string{"autoscaling.knative.dev/initial-scale": "0"}
	return app
}

// deed is what is done to some Services while no core can run.
type deed struct {
	name  string
	count int
	// revisions is how many the Service has before. The first one has all traffic.
	revisions int
	do        func(ctx context.Context, s *scene, name string) error
	events    []string
}

// deeds change 200 Services.
var deeds = []deed{
	{"moved", 40, 2, moves(0, pinned(100, 2)), []string{upgraded}},
	{"split", 40, 2, moves(0, pinned(90, 1, 10, 2)), []string{shifted}},
	// What came and went is not told.
	{"flown", 40, 2, moves(0, pinned(50, 1, 50, 2), pinned(100, 1)), nil},
	{"grown", 40, 1, moves(2, both(version("two"), pinned(100, 1))), []string{revisionReady}},
	{"gone", 20, 1, func(ctx context.Context, s *scene, name string) error {
		return suite.Services.Delete(ctx, s.ns, name)
	}, []string{removed}},
	{"come", 20, 0, func(ctx context.Context, s *scene, name string) error { return s.podless(ctx, name) }, birth},
}

// moves changes a Service in steps, each of which is in effect before the next one.
func moves(revision int, steps ...func(*servingv1.Service)) func(context.Context, *scene, string) error {
	return func(ctx context.Context, s *scene, name string) error {
		latest := ""
		if revision > 0 {
			latest = kit.RevisionName(name, revision)
		}
		for _, step := range steps {
			// The API server may be away.
			err := kit.Wait(ctx, time.Minute, "changing "+name, func(ctx context.Context) error {
				if err := suite.Services.Update(ctx, s.ns, name, step); err != nil {
					return kit.NotYet("%v", err)
				}
				return nil
			})
			if err != nil {
				return err
			}
			err = kit.Wait(ctx, recovers, name+" to be Ready", func(ctx context.Context) error {
				svc, err := suite.Serving.ServingV1().Services(s.ns).Get(ctx, name, metav1.GetOptions{})
				if err != nil {
					return kit.NotYet("%v", err)
				}
				if !svc.IsReady() || svc.Status.ObservedGeneration != svc.Generation || latest != "" && svc.Status.LatestReadyRevisionName != latest {
					return kit.NotYet("its status is %s", compact(svc.Status))
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// podless creates a Service without pods.
func (s *scene) podless(ctx context.Context, name string) error {
	err := kit.Wait(ctx, time.Minute, "the creation of "+name, func(ctx context.Context) error {
		// Serving may not know yet that it is allowed.
		if err := suite.Services.Create(ctx, podless(s.ns, name)); err != nil {
			return kit.NotYet("%v", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, err = suite.Services.Wait(ctx, s.ns, name, kit.RevisionName(name, 1))
	return err
}

// job is a deed with one Service.
type job struct {
	deed
	service string
}

// jobs returns the Services of all deeds, in any order.
func jobs() []job {
	var all []job
	for _, d := range deeds {
		for i := range d.count {
			all = append(all, job{d, fmt.Sprintf("%s-%02d", d.name, i)})
		}
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// each does something with jobs, some at once.
func (s *scene) each(all []job, do func(context.Context, job) error) {
	s.Helper()
	group, ctx := errgroup.WithContext(s.Context())
	group.SetLimit(atOnce)
	for _, j := range all {
		group.Go(func() error { return do(ctx, j) })
	}
	s.must(group.Wait())
}

// allTold waits until all events are told that are to be, and reports those that are missing or were not to come.
func (s *scene) allTold(what string, want map[string][]string) {
	s.Helper()
	total, began := 0, time.Now()
	for _, types := range want {
		total += len(types)
	}
	var got []event
	ask := func(ctx context.Context) error {
		all, err := s.sink.events(ctx)
		if err != nil {
			return kit.NotYet("%v", err) // the API server may be away
		}
		if got = once(all); len(got) < total {
			time.Sleep(2 * time.Second) // there are thousands to read
			return kit.NotYet("%d of %d events have come", len(got), total)
		}
		return nil
	}
	err := kit.Wait(s.Context(), 6*time.Minute, what, ask)
	if err != nil {
		s.Error(err)
	}
	at := time.Now()
	time.Sleep(2 * still)
	s.must(ask(s.Context()))
	by := map[string][]string{}
	for _, e := range got {
		name := e.cd.CustomData.Knative.Name
		by[name] = append(by[name], e.Header.Get("Ce-Type"))
	}
	lost, invented, disordered := 0, 0, 0
	for name, types := range want {
		rest := slices.Clone(by[name])
		missing := 0
		for _, typ := range types {
			if i := slices.Index(rest, typ); i >= 0 {
				rest = slices.Delete(rest, i, i+1)
			} else {
				missing++
			}
		}
		lost += missing
		invented += len(rest)
		if missing == 0 && len(rest) == 0 && !slices.Equal(by[name], types) {
			disordered++
		}
		if !slices.Equal(by[name], types) {
			s.Errorf("%s: of %s, received %v, want %v", what, name, by[name], types)
		}
		delete(by, name)
	}
	for name, types := range by {
		invented += len(types)
		s.Errorf("%s: of %s, received %v", what, name, types)
	}
	say("%s: %d events of %d Services within %s; lost %d, invented %d, in another order %d", what, len(got), len(want),
		at.Sub(began).Round(time.Second), lost, invented, disordered)
	s.sameBytes()
}

// serverlessBehind has 200 Services change while no core can run, and half of that time no doorbell either; then some of
// them while the API server restarts.
func serverlessBehind(t *testing.T) {
	ctx := t.Context()
	setConfig(t, "knative-serving", "config-autoscaler", map[string]string{"allow-zero-initial-scale": "true"})
	t.Cleanup(func() {
		if err := suite.Workloads.Cordon(context.WithoutCancel(ctx), false); err != nil {
			t.Error(err)
		}
	})
	s := newScene(t)
	// While the API server is away, nothing becomes ready. On a busy machine, that lasts for a minute.
	s.configure(map[string]string{"incident-outage-after": "10m"})
	s.source("source", service("sink"))
	want, all := map[string][]string{}, jobs()
	began := time.Now()
	// One after the other: a look that sees two new Revisions at once tells of both before it tells of the traffic.
	s.each(all, func(ctx context.Context, j job) error {
		if j.revisions == 0 {
			return nil
		}
		return s.podless(ctx, j.service)
	})
	for _, j := range all {
		if want[j.service] = nil; j.revisions > 0 {
			want[j.service] = slices.Clone(birth)
		}
	}
	s.allTold("their births", want)
	s.each(all, func(ctx context.Context, j job) error {
		if j.revisions < 2 {
			return nil
		}
		return moves(2, both(version("two"), pinned(100, 1)))(ctx, s, j.service)
	})
	for _, j := range all {
		if j.revisions > 1 {
			want[j.service] = append(want[j.service], revisionReady)
		}
	}
	s.allTold("their second Revisions", want)
	say("made the Services in %s", took(began))

	s.must(suite.Serverless.WaitControllerAsleep(ctx))
	began = time.Now()
	s.must(suite.Workloads.Cordon(ctx, true))
	s.ends("core", suite.Serverless.Cores)
	half := len(all) / 2
	do := func(ctx context.Context, j job) error { return j.do(ctx, s, j.service) }
	s.each(all[:half], do)
	s.ends("doorbell", suite.Serverless.Doorbells)
	s.each(all[half:], do)
	say("changed %d Services in %s, while no core could run", len(all), took(began))
	s.allTold("meanwhile", want) // nothing
	s.must(suite.Workloads.Cordon(ctx, false))
	for _, j := range all {
		want[j.service] = append(want[j.service], j.events...)
	}
	s.allTold("behind", want)
	s.restartsAPIServer(all, want)
}

// restartsAPIServer moves traffic again while the API server restarts.
func (s *scene) restartsAPIServer(all []job, want map[string][]string) {
	s.Helper()
	again := slices.DeleteFunc(slices.Clone(all), func(j job) bool { return j.name != "split" })
	moving := make(chan error, 1)
	under := make(chan struct{}, len(again))
	go func() {
		group, ctx := errgroup.WithContext(s.Context())
		group.SetLimit(atOnce)
		for _, j := range again {
			group.Go(func() error {
				defer func() { under <- struct{}{} }()
				return moves(0, pinned(80, 1, 20, 2))(ctx, s, j.service)
			})
		}
		moving <- group.Wait()
	}()
	for range len(again) / 4 {
		<-under
	}
	began := time.Now()
	s.must(suite.RestartDaemon(s.Context(), "kube-apiserver"))
	say("the API server was down for %s at most", took(began))
	s.must(<-moving)
	for _, j := range again {
		want[j.service] = append(want[j.service], shifted)
	}
	s.allTold("the API server restarted", want)
}

// ends ends the pods of core or doorbell at once, and waits until none runs.
func (s *scene) ends(what string, find func(context.Context) ([]corev1.Pod, error)) {
	s.Helper()
	s.must(kit.Wait(s.Context(), time.Minute, "the end of each "+what, func(ctx context.Context) error {
		pods, err := find(ctx)
		if err != nil {
			return err
		}
		for i := range pods {
			if pods[i].Spec.NodeName == "" {
				continue // it waits for a node
			}
			now := int64(0)
			if err := suite.Controller.Delete(ctx, pods[i].Name, &now); err != nil {
				return err
			}
			return kit.NotYet("%s ran", pods[i].Name)
		}
		return nil
	}))
}
