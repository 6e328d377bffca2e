// SPDX-License-Identifier: Apache-2.0

// Command informers is what the doorbell would be with metadata informers of client-go: TestProgram compares the memory
// of both. It rings nobody.
package main

import (
	"context"
	"log"
	"os/signal"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		log.Fatal(err)
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	factory := metadatainformer.NewSharedInformerFactory(client, 0)
	for _, r := range []schema.GroupVersionResource{
		{Group: "serving.knative.dev", Version: "v1", Resource: "services"},
		{Group: "serving.knative.dev", Version: "v1", Resource: "routes"},
		{Group: "serving.knative.dev", Version: "v1", Resource: "revisions"},
		{Group: "serving.knative.dev", Version: "v1beta1", Resource: "domainmappings"},
		{Group: "knative-cdevents.dev", Version: "v1alpha1", Resource: "cdeventsources"},
		{Group: "knative-cdevents.dev", Version: "v1alpha1", Resource: "cdeventsubjects"},
		{Version: "v1", Resource: "namespaces"},
	} {
		informer := factory.ForResource(r).Informer()
		// As much as a doorbell could leave out.
		err := informer.SetTransform(func(obj any) (any, error) {
			if o, ok := obj.(*metav1.PartialObjectMetadata); ok {
				o.ManagedFields, o.Annotations = nil, nil
			}
			return obj, nil
		})
		if err != nil {
			log.Fatal(err)
		}
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{}); err != nil {
			log.Fatal(err)
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	log.Print("the caches are complete")
	<-ctx.Done()
}
