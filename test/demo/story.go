// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// look is how long the traffic is measured after each step.
const look = 6 * time.Second

// story runs the story itself.
func (d *demo) story(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	p := &play{demo: d, events: &display{}, traffic: &load{}, lost: make(chan error, 1)}
	// After the story, nothing is printed and no request is sent.
	defer p.running.Wait()
	defer stop()

	d.out.chapter("4. The first Revision")
	if err := p.first(ctx); err != nil {
		return err
	}
	for _, s := range d.steps() {
		d.out.chapter(s.title)
		if err := p.step(ctx, s); err != nil {
			return err
		}
	}
	d.out.chapter("8. Removal")
	return p.last(ctx)
}

// play is a story under way: the events that arrived, and the requests that are sent.
type play struct {
	*demo
	running sync.WaitGroup
	events  *display
	// lost receives why no more events can be read.
	lost    chan error
	traffic *load
}

// expect waits until a number of events of a type have arrived.
func (p *play) expect(ctx context.Context, short string, count int) error {
	err := p.events.wait(ctx, short, count)
	if err == nil {
		return nil
	}
	select {
	case gone := <-p.lost:
		return fmt.Errorf("%w (%w)", err, gone)
	default:
		return fmt.Errorf("%w\nthe controller's log ends with\n%s", err, p.kit.Controller.Log(ctx, 20))
	}
}

// first deploys the Service, and begins to show its events and to send requests.
func (p *play) first(ctx context.Context) error {
	// Remains of an interrupted run.
	if err := p.kit.Services.Delete(ctx, namespace, app); err != nil {
		return err
	}
	pod, err := p.displayPod(ctx)
	if err != nil {
		return err
	}
	p.out.command("kn service create " + app + " --image …/app:one")
	// The first event may precede the program that reads it, and clocks may differ a little.
	from := time.Now().Add(-10 * time.Second)
	if err := p.kit.Services.Create(ctx, kit.App(namespace, app, p.one, "")); err != nil {
		return err
	}
	svc, err := p.kit.Serving.ServingV1().Services(namespace).Get(ctx, app, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the Service: %w", err)
	}
	p.running.Go(func() { p.lost <- p.events.follow(ctx, p.kit, pod, from, string(svc.UID), p.out.event) })
	if svc, err = p.kit.Services.Wait(ctx, namespace, app, kit.RevisionName(app, 1)); err != nil {
		return err
	}
	if err := p.expect(ctx, "service.published", 1); err != nil {
		return err
	}
	in, err := p.kit.Services.Ingress(ctx)
	if err != nil {
		return err
	}
	if err := p.reach(ctx, in, svc.Status.URL.URL()); err != nil {
		return err
	}
	p.running.Go(func() { p.traffic.run(ctx, in, svc.Status.URL.URL()) })
	p.watch(ctx, p.traffic)
	return nil
}

// step is a change of the Service, and the event that announces it.
type step struct {
	title, command, event string
	change                func(*servingv1.Service)
}

// steps lead from the first Revision to the second, and back.
func (d *demo) steps() []step {
	first := kit.RevisionName(app, 1)
	return []step{
		{
			"5. A canary: the second Revision gets 10 %",
			fmt.Sprintf("kn service update %s --image …/app:two --traffic %s=90,@latest=10", app, first),
			"traffic.shifted",
			func(s *servingv1.Service) {
				s.Spec.Template.Spec.Containers[0].Image = d.two
				kit.SetTraffic(s, kit.Share{Revision: first, Percent: 90}, kit.Share{Percent: 10})
			},
		},
		{
			"6. Promotion: it gets all traffic",
			fmt.Sprintf("kn service update %s --traffic @latest=100", app),
			"service.upgraded",
			func(s *servingv1.Service) { kit.SetTraffic(s, kit.Share{Percent: 100}) },
		},
		{
			"7. Rollback: back to the first",
			fmt.Sprintf("kn service update %s --traffic %s=100", app, first),
			"service.rolledback",
			func(s *servingv1.Service) { kit.SetTraffic(s, kit.Share{Revision: first, Percent: 100}) },
		},
	}
}

// step makes a change, waits for its event, and measures the traffic.
func (p *play) step(ctx context.Context, s step) error {
	p.out.command(s.command)
	if err := p.kit.Services.Update(ctx, namespace, app, s.change); err != nil {
		return err
	}
	if err := p.expect(ctx, s.event, 1); err != nil {
		return err
	}
	if _, err := p.kit.Services.Wait(ctx, namespace, app, kit.RevisionName(app, 2)); err != nil {
		return err
	}
	p.watch(ctx, p.traffic)
	return nil
}

// last deletes the Service.
func (p *play) last(ctx context.Context) error {
	p.out.command("kn service delete " + app)
	requests, failed, last := p.traffic.totals()
	p.out.note("%d requests were sent so far, %d of them failed", requests, failed)
	if last != nil {
		p.out.note("the last failure: %v", last)
	}
	if err := p.kit.Services.Delete(ctx, namespace, app); err != nil {
		return err
	}
	return p.expect(ctx, "service.removed", 1)
}

// watch measures the traffic for a while.
func (d *demo) watch(ctx context.Context, traffic *load) {
	// Requests in flight belong to the step before.
	pause(ctx, time.Second)
	traffic.window()
	pause(ctx, look)
	d.out.traffic(traffic.measure())
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// reach waits until the Service answers through the ingress, so that the load does not measure how long the ingress
// takes to learn of it.
func (d *demo) reach(ctx context.Context, in *kit.Ingress, service *url.URL) error {
	return kit.Wait(ctx, time.Minute, "an answer from "+service.String()+" through the ingress (to use another one, set DEMO_INGRESS=http://HOST:PORT)",
		func(ctx context.Context) error {
			if _, err := in.Get(ctx, service); err != nil {
				return kit.NotYet("%v", err)
			}
			return nil
		})
}

func (d *demo) displayPod(ctx context.Context) (string, error) {
	pods, err := d.kit.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: sink.Selector()})
	if err != nil {
		return "", fmt.Errorf("finding the pod of event_display: %w", err)
	}
	for _, p := range pods.Items {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			return p.Name, nil
		}
	}
	return "", fmt.Errorf("event_display has no running pod in %s", namespace)
}

// next ends the demo with suggestions.
func (d *demo) next() {
	d.out.chapter("Done, in " + took(d.out.began))
	d.out.note("The demo is still running. Try:")
	kubectl, down := "bin/cluster kubectl", "make demo-down"
	if d.existing {
		kubectl, down = "kubectl", "make demo-down DEMO_CLUSTER=existing"
	}
	for _, c := range [][2]string{
		{kubectl + " get cdeventsources -A", "where events go, and whether they are delivered"},
		{kubectl + " get cdeventsubjects -n knative-cdevents", "what was sent about each Service, and what is pending"},
		{kubectl + " logs -n " + namespace + " deploy/event-display", "the events as they were received"},
		{down, "remove everything"},
	} {
		d.out.command(fmt.Sprintf("%-58s # %s", c[0], c[1]))
	}
	d.out.note("docs/events.md describes each event, and README.md how to install on your own cluster.")
}
