// SPDX-License-Identifier: Apache-2.0

package gatehttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/reconciler/authserver"
)

// Audience that a token must have. A token for the API server is refused, because whoever
// sees it could act as its owner.
const Audience = "knative-cdevents"

// Limits of the caches.
const (
	rememberFor  = 10 * time.Second
	rememberMost = 1024
)

// Access admits clients whose token the API server accepts and who may get the gate.
type Access struct {
	reviews *authserver.Reviews
	// allowed caches authorizations by a digest of the token and the gate. It keeps them
	// briefly, so that revoked access ends, and it caches no refusals.
	allowed *cache.LRUExpireCache
}

// NewAccess reviews recently accepted tokens with one client, known, and all others with another, unknown.
// Give each client its own rate limit, so that invalid tokens do not delay known ones.
func NewAccess(known, unknown kubernetes.Interface) *Access {
	return &Access{
		reviews: authserver.NewReviews(known, unknown, Audience, howTo, rememberMost),
		allowed: cache.NewLRUExpireCache(rememberMost),
	}
}

type grant struct {
	token authserver.Digest
	gate  types.NamespacedName
}

// Check implements Guard.
func (a *Access) Check(r *http.Request, gate types.NamespacedName) error {
	token := authserver.Token(r)
	if token == "" {
		return &authserver.RefusedError{
			Status:  http.StatusUnauthorized,
			Message: "a token of a ServiceAccount is required, as `Authorization: Bearer` or as the password of Basic authentication; " + howTo,
		}
	}
	who := grant{authserver.DigestOf(token), gate}
	if _, ok := a.allowed.Get(who); ok {
		return nil
	}
	err := a.reviews.Review(
		r,
		token,
		func(ctx context.Context, kube kubernetes.Interface, user authenticationv1.UserInfo) error {
			return authorize(ctx, kube, user, gate)
		},
	)
	if err != nil {
		return err //nolint:wrapcheck // a refusal, or complete
	}
	a.allowed.Add(who, true, rememberFor)
	return nil
}

const howTo = "create one with: kubectl create token NAME --audience=" + Audience

func authorize(
	ctx context.Context,
	kube kubernetes.Interface,
	user authenticationv1.UserInfo,
	gate types.NamespacedName,
) error {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	resource := v1alpha1.GateResource
	review, err := kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, Groups: user.Groups, UID: user.UID, Extra: extra,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: gate.Namespace, Name: gate.Name, Verb: "get", Group: resource.Group, Version: resource.Version,
				Resource: resource.Resource,
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("reviewing the rights of %s: %w", user.Username, err)
	}
	if review.Status.EvaluationError != "" && !review.Status.Allowed {
		return fmt.Errorf("reviewing the rights of %s: %w", user.Username, errors.New(review.Status.EvaluationError))
	}
	if !review.Status.Allowed || review.Status.Denied {
		return &authserver.RefusedError{
			Status: http.StatusForbidden,
			Message: fmt.Sprintf("%s may not get %s.%s %s in namespace %s; bind it to a Role that allows that",
				user.Username, resource.Resource, resource.Group, gate.Name, gate.Namespace),
		}
	}
	return nil
}
