// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// Current implements observer.Confirmer. It reads the objects that say how a Service is: itself, its Route, and the
// DomainMappings that are not Ready. Its cluster must have been polled since.
func (k *Kind) Current(ctx context.Context, key types.NamespacedName, parts observer.Parts, at time.Time) (bool,
	error,
) {
	if !k.polledSince(key, parts[lifecycle.ObjectCluster], at) {
		return false, nil
	}
	for name, part := range parts {
		read := k.reader(key, name, part)
		if read == nil {
			continue
		}
		o, err := read(ctx)
		switch {
		case apierrors.IsNotFound(err):
			return false, nil // its end is on its way
		case err != nil:
			return false, fmt.Errorf("reading %s of Service %s: %w", name, key, err)
		case o.GetResourceVersion() != part.Version:
			return false, nil
		}
	}
	return true, nil
}

func (k *Kind) useClusters(c Clusters) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.clusters = c
}

// polledSince reports whether a poll of the cluster that began after that time found what the part has.
func (k *Kind) polledSince(key types.NamespacedName, cluster observer.Part, at time.Time) bool {
	k.mu.RLock()
	clusters := k.clusters
	k.mu.RUnlock()
	if cluster.Value == nil || clusters == nil {
		return true
	}
	began, version := clusters.Polled(key)
	return version == cluster.Version && !began.Before(at)
}

// reader returns how to read the object of a part, nil if it need not be read.
func (k *Kind) reader(key types.NamespacedName, name string, part observer.Part) func(context.Context) (metav1.Object,
	error) {
	get := metav1.GetOptions{}
	domain, isDomain := strings.CutPrefix(name, partDomain)
	switch {
	case name == partService:
		return func(ctx context.Context) (metav1.Object, error) {
			return k.client.ServingV1().Services(key.Namespace).Get(ctx, key.Name, get)
		}
	case name == partRoute:
		return func(ctx context.Context) (metav1.Object, error) {
			return k.client.ServingV1().Routes(key.Namespace).Get(ctx, key.Name, get)
		}
	case isDomain && away(part.Value):
		return func(ctx context.Context) (metav1.Object, error) {
			return k.client.ServingV1beta1().DomainMappings(key.Namespace).Get(ctx, domain, get)
		}
	}
	return nil
}

func away(value any) bool {
	v, ok := value.(domainValue)
	return ok && v.Away
}
