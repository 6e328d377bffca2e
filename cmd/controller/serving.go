// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/metadata"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	"github.com/knative-cdevents/knative-cdevents/reconciler/service"
)

// leastServing is the oldest version of Knative Serving whose metrics are read completely: docs/support.md.
const leastServing = "1.19.0"

// checkServing warns of a version of Knative Serving that is too old. It does no more: events are sent with any
// version, and Serving may be installed, or upgraded, later. The version of Kubernetes is checked by sharedmain.
func checkServing(ctx context.Context, client metadata.Interface) {
	log := logging.FromContext(ctx)
	found, err := client.Resource(observer.Definitions).Get(ctx, service.Resource, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return
	}
	if err != nil {
		log.Infow("The version of Knative Serving is not checked: its definition cannot be read", "error", err)
		return
	}
	label := found.Labels["app.kubernetes.io/version"]
	installed, err := version.ParseGeneric(label)
	if err != nil {
		log.Infow("The version of Knative Serving is not checked: its label cannot be read", "version", label)
		return
	}
	if installed.LessThan(version.MustParseGeneric(leastServing)) {
		log.Warnw("This version of Knative Serving is not supported. Events are sent, but gates may lack figures: "+
			"docs/canary.md says which. Upgrade Serving", "version", label, "least", leastServing)
	}
}
