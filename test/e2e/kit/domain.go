// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var domainClaims = schema.GroupVersionResource{Group: "networking.internal.knative.dev", Version: "v1alpha1", Resource: "clusterdomainclaims"}

// ClaimDomain gives a domain to a namespace, which an operator must do before a DomainMapping can be Ready.
func (k Services) ClaimDomain(ctx context.Context, domain, namespace string) error {
	claim := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": domainClaims.GroupVersion().String(), "kind": "ClusterDomainClaim",
		"metadata": map[string]any{"name": domain}, "spec": map[string]any{"namespace": namespace},
	}}
	if _, err := k.Dynamic.Resource(domainClaims).Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("claiming domain %s: %w", domain, err)
	}
	return nil
}

// UnclaimDomain reverts ClaimDomain.
func (k Services) UnclaimDomain(ctx context.Context, domain string) error {
	err := k.Dynamic.Resource(domainClaims).Delete(ctx, domain, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the claim for domain %s: %w", domain, err)
	}
	return nil
}
