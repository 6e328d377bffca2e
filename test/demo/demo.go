// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

const (
	namespace = "cdevents-demo"
	app       = "shop"
)

var sink = kit.Server{Namespace: namespace, Name: "event-display"}

type demo struct {
	out      *screen
	existing bool
	program  string
	// environments adds the part about environments.
	environments bool
	// sidecar makes the sharded application one that knows nothing of shards.
	sidecar bool

	kit *kit.Kit
	// one and two are the images of the application's versions.
	one, two string
	// sharded is the image of the application with the bad release; empty without Tekton.
	sharded string
}

func (d *demo) run(ctx context.Context) error {
	d.out.note("The life of a Knative Service as CDEvents. The demo takes a few minutes, and much longer the first time, because everything is built from source.")
	for _, step := range []func(context.Context) error{d.cluster, d.install, d.listen, d.rollouts, d.story, d.release, d.environment} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	d.next()
	return nil
}

// cluster starts a cluster, or checks the existing one.
func (d *demo) cluster(ctx context.Context) error {
	d.out.chapter("1. A cluster")
	if d.existing {
		if os.Getenv("KO_DOCKER_REPO") == "" {
			return errors.New("DEMO_CLUSTER=existing needs KO_DOCKER_REPO: a registry that you may push to and the cluster may pull from")
		}
	} else {
		done := d.out.doing("starting Kubernetes, Knative Serving, an ingress and Tekton on this machine")
		path, err := d.clusterCommand(ctx, "up", "--with", "serving,tekton")
		if err != nil {
			return err
		}
		if err := os.Setenv("KUBECONFIG", path); err != nil {
			return fmt.Errorf("setting KUBECONFIG: %w", err)
		}
		done("KUBECONFIG=" + path)
	}
	var err error
	if d.kit, err = kit.New(ctx); err != nil {
		return err
	}
	version, err := d.kit.Kube.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	_, err = d.kit.Kube.Discovery().ServerResourcesForGroupVersion("serving.knative.dev/v1")
	if apierrors.IsNotFound(err) {
		return errors.New("the cluster has no Knative Serving; see https://knative.dev/docs/install/")
	}
	if err != nil {
		return fmt.Errorf("checking for Knative Serving: %w", err)
	}
	d.out.note("Kubernetes %s with Knative Serving at %s", version.GitVersion, d.kit.Config.Host)
	return nil
}

// install installs the controller.
func (d *demo) install(ctx context.Context) error {
	d.out.chapter("2. The controller")
	done := d.out.doing("building its image and applying config/")
	if err := d.kit.Controller.Install(ctx); err != nil {
		return fmt.Errorf("%w\n%s", err, d.kit.Controller.Log(ctx, 20))
	}
	account, err := d.kit.Controller.ServiceAccount(ctx)
	if err != nil {
		return err
	}
	done("it runs as " + account + ", which may read Services but not write them")
	return nil
}

// listen deploys the sink, and creates the source that sends to it.
func (d *demo) listen(ctx context.Context) error {
	d.out.chapter("3. A receiver")
	done := d.out.doing("building Knative's event_display and two versions of a sample application, and starting event_display")
	var err error
	if sink.Image, err = d.kit.EventDisplay(ctx); err != nil {
		return err
	}
	if d.one, err = d.kit.Image(ctx, "./test/apps/app"); err != nil {
		return err
	}
	if d.two, err = d.kit.Image(ctx, "./test/apps/next/app"); err != nil {
		return err
	}
	if err := d.kit.CreateNamespace(ctx, namespace); err != nil {
		return err
	}
	if err := d.kit.Workloads.Serve(ctx, sink); err != nil {
		return err
	}
	done("it logs each event that it receives")

	done = d.out.doing("creating a CDEventSource, which specifies where to send events")
	source := &v1alpha1.CDEventSource{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.SourceKind.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo"},
	}
	source.Spec.Sink = duckv1.Destination{Ref: &duckv1.KReference{APIVersion: "v1", Kind: "Service", Name: sink.Name}}
	sources := d.kit.Ours.CDEventSources(namespace)
	if _, err := sources.Create(ctx, source, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the source: %w", err)
	}
	err = kit.Wait(ctx, time.Minute, "the source to be Ready", func(ctx context.Context) error {
		s, err := sources.Get(ctx, source.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if c := s.Status.GetCondition(apis.ConditionReady); !c.IsTrue() {
			if c == nil {
				return kit.NotYet("the controller has not processed it yet")
			}
			return kit.NotYet("%s: %s", c.Reason, c.Message)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, d.kit.Controller.Log(ctx, 20))
	}
	done("the sink is resolved. This is all that was needed")
	d.out.line("\n%s", manifest)
	return nil
}

const manifest = `            apiVersion: knative-cdevents.dev/v1alpha1
            kind: CDEventSource
            metadata: {name: demo, namespace: cdevents-demo}
            spec:
              sink:
                ref: {apiVersion: v1, kind: Service, name: event-display}`

// clusterCommand runs the cluster program and shows its progress.
func (d *demo) clusterCommand(ctx context.Context, args ...string) (string, error) {
	if d.program == "" {
		return "", errors.New("CLUSTER_PROGRAM names no program; start the demo with \"make demo\"")
	}
	cmd := exec.CommandContext(ctx, d.program, args...)
	cmd.Stderr = &indented{s: d.out}
	// Interrupt it, so that it cleans up; a killed program could not.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", fmt.Errorf("cluster %s: %w (see the reason above)", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// down removes what the demo created.
func (d *demo) down(ctx context.Context) error {
	if !d.existing {
		d.out.chapter("Deleting the cluster")
		_, err := d.clusterCommand(ctx, "down")
		return err
	}
	d.out.chapter("Removing the demo from the cluster")
	var err error
	if d.kit, err = kit.New(ctx); err != nil {
		return err
	}
	done := d.out.doing("deleting the roles of rollouts")
	if err := d.kit.Flows.UninstallRollout(ctx, namespace); err != nil {
		return err
	}
	done("deleted")
	done = d.out.doing("deleting namespace " + namespace)
	if err := d.kit.DeleteNamespace(ctx, namespace); err != nil {
		return err
	}
	done("deleted")
	done = d.out.doing("uninstalling the controller and, if it is there, the injector")
	if err := d.kit.Injector.Uninstall(ctx); err != nil {
		return err
	}
	if err := d.kit.Controller.Uninstall(ctx); err != nil {
		return err
	}
	done("uninstalled")
	return nil
}
