// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// cart is the sharded application, whose canary is judged.
const cart = "cart"

var (
	customRuns   = schema.GroupVersionResource{Group: "tekton.dev", Version: "v1beta1", Resource: "customruns"}
	pipelineRuns = schema.GroupVersionResource{Group: "tekton.dev", Version: "v1", Resource: "pipelineruns"}
)

// impatient is a gate for a demo: the defaults take minutes, and suit a real release.
const impatient = `{"spec": {
	"schedule": {"warmup": "5s", "interval": "5s", "minDuration": "15s", "timeout": "4m"},
	"minimum": {"canaryRequests": 100, "baselineRequests": 100}}}`

// rolloutTime bounds the wait for the rollout.
const rolloutTime = 6 * time.Minute

// rollouts installs the pipeline for progressive rollouts, if Tekton is installed.
func (d *demo) rollouts(ctx context.Context) error {
	for _, group := range []string{"tekton.dev/v1", "triggers.tekton.dev/v1beta1"} {
		_, err := d.kit.Kube.Discovery().ServerResourcesForGroupVersion(group)
		if apierrors.IsNotFound(err) {
			d.out.note("The cluster has no Tekton Pipelines and Triggers, so the demo skips the part that stops a bad release; see docs/tekton.md")
			return nil
		}
		if err != nil {
			return fmt.Errorf("checking for Tekton: %w", err)
		}
	}
	done := d.out.doing("building a sharded application, and installing the rollout of docs/tekton.md: an EventListener, a Pipeline and its gate")
	if err := d.buildCart(ctx); err != nil {
		return err
	}
	if err := d.kit.Flows.InstallRollout(ctx, namespace); err != nil {
		return err
	}
	gates := d.kit.Ours.CanaryGates(namespace)
	if _, err := gates.Patch(ctx, cart, types.MergePatchType, []byte(impatient), metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("shortening the gate's schedule: %w", err)
	}
	done("each Revision that becomes Ready starts it")
	return nil
}

// release shows how a bad Revision of a sharded application is stopped.
func (d *demo) release(ctx context.Context) error {
	if d.sharded == "" {
		return nil
	}
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()

	d.out.chapter("9. A stateful application: the pod that receives a request may not be the one that handles it")
	c := d.cart()
	before, err := d.withoutSidecar(ctx)
	if err != nil {
		return err
	}
	events, err := d.shard(ctx, c, &running)
	if err != nil {
		return err
	}
	clients, err := d.kit.Carts.Clients(ctx, c)
	if err != nil {
		return err
	}
	if err := clients.SendUntil(ctx, c.Stable()); err != nil {
		return err
	}
	if err := d.showSpread(ctx, clients, before); err != nil {
		return err
	}
	sending, enough := context.WithTimeout(ctx, rolloutTime)
	defer enough()
	running.Go(func() {
		for sending.Err() == nil {
			_ = clients.Send(sending, 40) // enough ends it
			pause(sending, 300*time.Millisecond)
		}
	})

	d.out.chapter("10. A bad release: it fails 5 % of the requests that it handles, wherever they entered")
	d.out.command("kn service update " + cart + " --env FAIL_RATE=0.05")
	if err := d.kit.Carts.ReleaseCanary(ctx, c, map[string]string{"FAIL_RATE": "0.05"}); err != nil {
		return err
	}
	run, err := d.rollout(ctx, c)
	if err != nil {
		return err
	}
	enough()
	if err := events.wait(ctx, "service.rolledback", 1); err != nil {
		return err
	}
	if err := events.wait(ctx, "testcaserun.finished", 1); err != nil {
		return err
	}
	return d.verdict(ctx, c, run)
}

// buildCart builds the sharded application. With a sidecar, it also installs the injector.
func (d *demo) buildCart(ctx context.Context) (err error) {
	if !d.sidecar {
		d.sharded, err = d.kit.Carts.ShardedImage(ctx)
		return err
	}
	if d.sharded, err = d.kit.Image(ctx, "./test/apps/cart"); err != nil {
		return err
	}
	if err = d.kit.Injector.Install(ctx); err != nil {
		return err
	}
	return d.kit.Injector.OptIn(ctx, namespace)
}

// cart returns the sharded application, whose shards are placed as the traffic is.
func (d *demo) cart() *kit.Cart {
	if d.sidecar {
		return d.kit.Carts.Plain(namespace, d.sharded)
	}
	c := d.kit.Carts.Sharded(namespace, d.sharded)
	c.Annotations = map[string]string{
		v1alpha1.AnnotationPlacement: string(v1alpha1.PlacementEnforce), v1alpha1.AnnotationManagementPort: "9099",
	}
	c.Env = map[string]string{"PLACEMENT": "true"}
	return c
}

func (d *demo) shardedBy() string {
	if d.sidecar {
		return "by a sidecar; the application knows nothing of it"
	}
	return "protoactor-go"
}

// shard deploys the sharded application, and begins to show its events.
func (d *demo) shard(ctx context.Context, c *kit.Cart, running *sync.WaitGroup) (*display, error) {
	if err := d.kit.Services.Delete(ctx, namespace, cart); err != nil {
		return nil, err
	}
	pod, err := d.displayPod(ctx)
	if err != nil {
		return nil, err
	}
	from := time.Now().Add(-10 * time.Second)
	done := d.out.doing("deploying " + cart + ", whose 100 shards are spread over the pods of all its Revisions as the traffic is (" + d.shardedBy() + ")")
	if err := d.kit.Carts.Deploy(ctx, c); err != nil {
		return nil, err
	}
	if err := d.kit.Flows.TakePart(ctx, namespace); err != nil {
		return nil, err
	}
	done(c.Stable() + " has all traffic, pinned")
	svc, err := d.kit.Serving.ServingV1().Services(namespace).Get(ctx, cart, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the Service: %w", err)
	}
	events := &display{}
	running.Go(func() {
		// Whoever waits for an event reports the error.
		_ = events.follow(ctx, d.kit, pod, from, string(svc.UID), d.out.event)
	})
	return events, nil
}

// rollout waits for the end of the PipelineRun that the Revision started, shows the gate's progress, and returns the
// gate's result.
func (d *demo) rollout(ctx context.Context, c *kit.Cart) (*v1alpha1.GateRun, error) {
	revision, err := d.kit.Serving.ServingV1().Revisions(namespace).Get(ctx, c.Canary(), metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading Revision %s: %w", c.Canary(), err)
	}
	name := "rollout-" + string(revision.UID)
	shown := map[string]string{}
	var last *v1alpha1.GateRun
	ctx, cancel := context.WithTimeout(ctx, rolloutTime)
	defer cancel()
	err = kit.Wait(ctx, rolloutTime, "the end of PipelineRun "+name, func(ctx context.Context) error {
		gates, err := d.kit.Dynamic.Resource(customRuns).Namespace(namespace).
			List(ctx, metav1.ListOptions{LabelSelector: "tekton.dev/pipelineRun=" + name})
		if err != nil {
			return fmt.Errorf("listing the gates: %w", err)
		}
		for _, g := range gates.Items {
			reason, message := succeeded(&g)
			// The numbers change all the time, so print one line for each kind of message.
			if kind := reason + fmt.Sprintf("%.40s", message); reason != "" && shown[g.GetName()] != kind {
				shown[g.GetName()] = kind
				d.out.note("%s  gate %s: %s", clock(time.Now()), g.GetLabels()["tekton.dev/pipelineTask"], message)
			}
			if last, err = gateRun(&g); err != nil {
				return err
			}
		}
		run, err := d.kit.Dynamic.Resource(pipelineRuns).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return kit.NotYet("it has not been started")
		}
		if err != nil {
			return fmt.Errorf("reading PipelineRun %s: %w", name, err)
		}
		if done, _, _ := unstructured.NestedString(run.Object, "status", "completionTime"); done == "" {
			return kit.NotYet("it is in progress")
		}
		return nil
	})
	if err == nil && last == nil {
		err = fmt.Errorf("PipelineRun %s ended without a gate", name)
	}
	return last, err
}

func succeeded(o *unstructured.Unstructured) (reason, message string) {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == "Succeeded" {
			return fmt.Sprint(m["reason"]), fmt.Sprint(m["message"])
		}
	}
	return "", ""
}

// gateRun is the gate's state in its CustomRun; nil before the gate starts.
func gateRun(o *unstructured.Unstructured) (*v1alpha1.GateRun, error) {
	extra, ok, _ := unstructured.NestedMap(o.Object, "status", "extraFields")
	if !ok {
		return nil, nil //nolint:nilnil // no run is not an error
	}
	data, err := json.Marshal(extra)
	if err != nil {
		return nil, fmt.Errorf("reading CustomRun %s: %w", o.GetName(), err)
	}
	run := &v1alpha1.GateRun{}
	if err := json.Unmarshal(data, run); err != nil {
		return nil, fmt.Errorf("reading CustomRun %s: %w", o.GetName(), err)
	}
	return run, nil
}

// verdict shows the gate's result, and what a measurement at the entry would have shown.
func (d *demo) verdict(ctx context.Context, c *kit.Cart, run *v1alpha1.GateRun) error {
	d.out.chapter("11. Why")
	d.out.verdict(run)
	m, err := d.kit.Carts.MeasuredOf(ctx, namespace, cart)
	if err != nil {
		return fmt.Errorf("reading the canary's figures from the controller: %w", err)
	}
	handled, entered := m.Counts("canary_handled_requests_total", "outcome"), m.Counts("canary_entry_requests_total", "code_class")
	var rows []sideBySide
	for _, revision := range []string{c.Stable(), c.Canary()} {
		h, e := handled[revision], entered[revision]
		rows = append(rows, sideBySide{
			revision: revision, entered: e.All(), failedAtEntry: e["5xx"], handled: h.All(), failed: h["error"] + h["timeout"],
		})
	}
	d.out.sides(rows)
	if !slices.Contains([]verdict.Verdict{verdict.Fail, verdict.Inconclusive}, run.Verdict) {
		return fmt.Errorf("the gate let a bad release pass: %s", run.Message)
	}
	return nil
}
