// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

var (
	leases      = coordinationv1.SchemeGroupVersion.WithResource("leases")
	deployments = appsv1.SchemeGroupVersion.WithResource("deployments")
)

// Serverless is what the API server has of the serverless mode.
type Serverless struct {
	// Lease is the doorbell's.
	Lease *coordinationv1.Lease
	// Controller is the Deployment of the controller; nil if there is none.
	Controller *appsv1.Deployment
}

// Serverless returns nil if the installation is not in the serverless mode.
func (r *Reader) Serverless(ctx context.Context) (*Serverless, error) {
	out := &Serverless{Lease: &coordinationv1.Lease{}, Controller: &appsv1.Deployment{}}
	if found, err := r.own(ctx, leases, v1alpha1.DoorbellLease, out.Lease); err != nil || !found {
		return nil, err
	}
	found, err := r.own(ctx, deployments, "controller", out.Controller)
	if err != nil {
		return nil, err
	}
	if !found {
		out.Controller = nil
	}
	return out, nil
}

// own reads an object of the controller's namespace that tells how the controller runs. It is false if there is none.
func (r *Reader) own(ctx context.Context, of schema.GroupVersionResource, name string, into any) (bool, error) {
	return r.get(ctx, of, r.System, name, into, askForLedger(r.System))
}
