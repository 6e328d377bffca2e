// SPDX-License-Identifier: Apache-2.0

// Command bare is the simplest program for the job: it watches Services, Routes and Revisions with client-go's typed
// informers, and posts a CloudEvent for each new traffic split of a Route. In the benchmark it is the lower bound for
// time and, because it caches whole objects, the reference for memory.
//
// Invariant: it does only what is needed to send: no journal, no retry, no record of what was sent. An event that it
// cannot send is lost, and the loss is logged.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	"knative.dev/serving/pkg/client/clientset/versioned"
	"knative.dev/serving/pkg/client/informers/externalversions"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	sink := os.Getenv("K_SINK")
	if sink == "" {
		return errors.New("K_SINK is not set; set it to the URL that events go to")
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return fmt.Errorf("reading the kubeconfig (is KUBECONFIG set?): %w", err)
	}
	client, err := versioned.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client for Knative Serving: %w", err)
	}
	p := newPoster(sink)
	factory := externalversions.NewSharedInformerFactory(client, 0)
	v1 := factory.Serving().V1()
	v1.Services().Informer()
	v1.Revisions().Informer()
	if _, err := v1.Routes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, after any) {
			was, ok := before.(*servingv1.Route)
			is, ok2 := after.(*servingv1.Route)
			if ok && ok2 {
				p.changed(was, is)
			}
		},
	}); err != nil {
		return fmt.Errorf("watching Routes: %w", err)
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	p.run(ctx)
	return nil
}
