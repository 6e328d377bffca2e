// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// rung bounds the time from a change to its events: the core may have to be started, on a busy machine.
const rung = 3 * time.Minute

// once returns the accepted events without those that came again. Which have the same bytes, sameBytes checks.
func once(all []event) []event {
	seen := map[string]bool{}
	return slices.DeleteFunc(choose(all, accepted), func(e event) bool {
		again := seen[e.cd.Context.ID]
		seen[e.cd.Context.ID] = true
		return again
	})
}

// tells waits until the accepted events are exactly these, each once or more, in this order, and no others come.
func (s *scene) tells(want []string, filters ...func(event) bool) []event {
	s.Helper()
	var got []event
	ask := func(ctx context.Context) error {
		all, err := s.sink.events(ctx)
		if err != nil {
			return err
		}
		if got = once(choose(all, filters...)); len(got) < len(want) {
			return kit.NotYet("%d of %d have come: %s", len(got), len(want), strings.Join(typesOf(got), ", "))
		}
		return nil
	}
	s.must(kit.Wait(s.Context(), rung, "the events", ask))
	time.Sleep(still)
	s.must(ask(s.Context()))
	if !slices.Equal(typesOf(got), want) {
		s.Fatalf("received\n  %s\nwant\n  %s", strings.Join(typesOf(got), "\n  "), strings.Join(want, "\n  "))
	}
	s.sameBytes()
	return got
}

// unprepared is a gate for one that has no past to compare with, because the controller has just been woken. A Service
// with one pod then fails by what each minute adds: half of its requests fail for six or seven minutes.
const unprepared = `{"spec": {
	"schedule": {"warmup": "5s", "interval": "5s", "minDuration": "15s", "timeout": "12m"},
	"minimum": {"canaryRequests": 50, "baselineRequests": 50},
	"exposure": {"minRatio": 0.1, "maxRatio": 10, "tooHigh": "Warn", "tooLow": "Warn"},
	"metrics": [{"type": "ErrorRate", "limit": 0.05, "negligible": 0.02}]}}`

// stay is from when to when a pod existed.
type stay struct {
	name     string
	from, to time.Time
}

// watchController records the pods that the controller has from now on, until the returned function is called.
func (s *scene) watchController() (stop func() []stay) {
	ctx, cancel := context.WithCancel(s.Context())
	seen := make(chan []stay)
	go func() {
		var all []stay
		for ; ctx.Err() == nil; time.Sleep(500 * time.Millisecond) {
			pods, err := suite.Controller.Pods(ctx)
			if err != nil {
				continue // it is asked again
			}
			for _, p := range pods {
				i := slices.IndexFunc(all, func(n stay) bool { return n.name == p.Name })
				if i < 0 {
					i, all = len(all), append(all, stay{name: p.Name, from: p.CreationTimestamp.Time})
				}
				all[i].to = time.Now()
			}
		}
		seen <- all
	}()
	return func() []stay { cancel(); return <-seen }
}

// rolledOut is a release in the story, with what must become of it.
type rolledOut struct {
	what            string
	revision        int
	env             []corev1.EnvVar
	ends            corev1.ConditionStatus
	verdicts, split string
	events          []string
}

// serverlessStory is that of the demo: Tekton rolls out a good release and a bad one, each in steps that a gate judges.
// The controller sleeps before, in between and afterwards.
func serverlessStory(t *testing.T) {
	s := newScene(t)
	ctx := t.Context()
	s.flow()
	s.gate(unprepared)
	s.source("plain", service("sink"))
	s.must(suite.Serverless.WaitControllerAsleep(ctx))
	began, stop := time.Now(), s.watchController()
	s.deploy("cart")
	s.takePart()
	want := slices.Clone(birth)
	s.tells(want, about("cart"))
	if pods := stop(); len(pods) > 0 {
		t.Errorf("a Service was deployed that nothing is compared with, and the controller was woken: %v", pods)
	}

	var awake time.Duration
	for _, r := range []rolledOut{
		{
			what: "a good release", revision: 2, env: []corev1.EnvVar{{Name: "VERSION", Value: "two"}},
			ends: corev1.ConditionTrue, verdicts: "Pass Warn", split: "2=100",
			events: []string{revisionReady, shifted, judged, shifted, judged, upgraded},
		},
		{
			what: "a bad release", revision: 3, env: []corev1.EnvVar{{Name: "ERROR_RATE", Value: "0.5"}},
			ends: corev1.ConditionFalse, verdicts: "Fail", split: "2=100",
			events: []string{revisionReady, shifted, judged, rolledBack},
		},
	} {
		want = append(want, r.events...)
		awake += s.rollsOut(r, want)
	}
	say("%s: a Service, a good release and a bad one took %s; the controller was awake for %s", s.Name(), took(began), awake.Round(time.Second))
}

// rollsOut makes a release, and checks that the controller is awake as long as the rollout needs it, and then sleeps. It
// returns how long that was. want are all events so far.
func (s *scene) rollsOut(r rolledOut, want []string) time.Duration {
	s.Helper()
	ctx, pods, quiet := s.Context(), s.watchController(), s.send()
	s.must(suite.Services.Update(ctx, s.ns, "cart", func(svc *servingv1.Service) {
		svc.Spec.Template.Spec.Containers[0].Env = r.env
	}))
	name := kit.RevisionName("cart", r.revision)
	_, err := suite.Services.Wait(ctx, s.ns, "cart", name)
	s.must(err)
	run := s.started(name)
	s.must(kit.Wait(ctx, time.Minute, "the controller to be woken", func(ctx context.Context) error {
		d, err := suite.Controller.Deployment(ctx)
		if err != nil {
			return err
		}
		why := d.Annotations[v1alpha1.AwakeAnnotation]
		if *d.Spec.Replicas == 0 || !strings.HasPrefix(why, "awake: ") || !strings.Contains(why, s.ns+"/") {
			return kit.NotYet("it has %d replicas: %q", *d.Spec.Replicas, why)
		}
		say("%s: %q", r.what, why)
		return nil
	}))
	s.ended(run, r.ends, r.split)
	ended := time.Now()
	gate := s.await(customRuns, run, "gate-10", done)
	if got := value(gate.Status.Results, "verdict"); got == "" || !strings.Contains(r.verdicts, got) {
		s.Errorf("%s: the verdict of %s", r.what, gate)
	}
	s.Logf("%d requests were answered", quiet())
	events := s.tells(want, about("cart"))
	s.must(suite.Serverless.WaitControllerAsleep(ctx))
	return s.onlyDuring(r, pods(), events, ended)
}

// onlyDuring checks that the controller's pods began after the Revision of a release, and before it got traffic, and
// ended soon after its rollout.
func (s *scene) onlyDuring(r rolledOut, pods []stay, events []event, ended time.Time) time.Duration {
	s.Helper()
	if len(pods) == 0 {
		s.Fatalf("%s: the controller had no pod", r.what)
	}
	revision, err := suite.Serving.ServingV1().Revisions(s.ns).Get(s.Context(), kit.RevisionName("cart", r.revision), metav1.GetOptions{})
	s.must(err)
	d, err := suite.Controller.Deployment(s.Context())
	s.must(err)
	if why := d.Annotations[v1alpha1.AwakeAnnotation]; why != "asleep: there has been nothing to measure for 1m0s" {
		s.Errorf("%s: the controller sleeps and says %q", r.what, why)
	}
	from := slices.MinFunc(pods, func(a, b stay) int { return a.from.Compare(b.from) }).from
	to := slices.MaxFunc(pods, func(a, b stay) int { return a.to.Compare(b.to) }).to
	split := events[len(events)-len(r.events)+1]
	// Times of the API have whole seconds.
	if made := revision.CreationTimestamp.Time; from.Before(made) || from.After(split.Time) {
		s.Errorf("%s: the Revision was made at %s, the controller woken at %s, and the split told at %s", r.what, clock(made), clock(from), clock(split.Time))
	}
	// The record of the run stays for up to two minutes. The shortest quiet time and the end of the pod follow.
	if late := to.Sub(ended); late > 4*time.Minute {
		s.Errorf("%s: the last pod ended %s after the rollout", r.what, late.Round(time.Second))
	}
	say("%s: Revision %s, controller %s, first split told %s, rollout ended %s, asleep %s", r.what,
		clock(revision.CreationTimestamp.Time), clock(from), clock(split.Time), clock(ended), clock(to))
	return to.Sub(from)
}

func clock(t time.Time) string { return t.Local().Format(time.TimeOnly) }
