// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/reconciler/authserver"
	"github.com/knative-cdevents/knative-cdevents/reconciler/pods"
)

// Audience that a token must have. It is not the audience of gates: a pod may read its placement, and no verdicts.
const Audience = "placement.knative-cdevents.dev"

// Limits of the cache.
const (
	// rememberFor is how long a token counts after its review. Its pod is looked up for each request.
	rememberFor  = time.Minute
	rememberMost = 4096
)

// Where the API server says which pod a token is bound to (k8s.io/apiserver/pkg/authentication/serviceaccount).
const (
	podNameKey = "authentication.kubernetes.io/pod-name"
	podUIDKey  = "authentication.kubernetes.io/pod-uid"
)

// Pods knows the pods of Services. pods.Informer implements it.
type Pods interface {
	Synced() bool
	Of(service types.NamespacedName) []*pods.Pod
	Owned(ctx context.Context, pod *pods.Pod) error
}

// Access admits the pods of a Service.
type Access struct {
	reviews *authserver.Reviews
	pods    Pods
	// callers are the pods of accepted tokens, by a digest of the token.
	callers *cache.LRUExpireCache
}

// NewAccess reviews recently accepted tokens with known, and all others with unknown. Give each client its own rate
// limit, so that invalid tokens do not delay known ones.
func NewAccess(known, unknown kubernetes.Interface, p Pods) *Access {
	return &Access{
		reviews: authserver.NewReviews(known, unknown, Audience, howTo, rememberMost), pods: p,
		callers: cache.NewLRUExpireCache(rememberMost),
	}
}

// Synced implements Guard.
func (a *Access) Synced() bool { return a.pods.Synced() }

// caller is the pod that a token is bound to.
type caller struct {
	namespace, name string
	uid             types.UID
}

// Check implements Guard.
func (a *Access) Check(r *http.Request, service types.NamespacedName) (*pods.Pod, error) {
	who, err := a.caller(r)
	if err != nil {
		return nil, err
	}
	of := a.pods.Of(service)
	i := slices.IndexFunc(of, func(p *pods.Pod) bool { return p.UID == who.uid })
	if i < 0 || who.namespace != service.Namespace || of[i].Name != who.name {
		return nil, &authserver.RefusedError{
			Status:  http.StatusForbidden,
			Message: fmt.Sprintf("pod %s/%s is not a pod of Service %s", who.namespace, who.name, service),
		}
	}
	pod := of[i]
	if pod.Over() {
		return nil, &authserver.RefusedError{Status: http.StatusForbidden, Message: "pod " + pod.Name + " has ended"}
	}
	ctx, cancel := context.WithTimeout(r.Context(), authserver.ReviewWithin)
	defer cancel()
	err = a.pods.Owned(ctx, pod)
	if refused := (*pods.RefusedError)(nil); errors.As(err, &refused) {
		return nil, &authserver.RefusedError{Status: http.StatusForbidden, Message: refused.Error()}
	}
	if err != nil {
		return nil, fmt.Errorf("verifying the owner of pod %s: %w", pod.Name, err)
	}
	return pod, nil
}

// Declared implements Guard. Pods that declare no cluster at all do not count: the controller does not plan for them.
func (a *Access) Declared(ctx context.Context, service types.NamespacedName,
	uid types.UID,
) (mode v1alpha1.PlacementMode, revision string, err error) {
	ctx, cancel := context.WithTimeout(ctx, authserver.ReviewWithin)
	defer cancel()
	newest := int64(-1)
	for _, pod := range a.pods.Of(service) {
		declared, ok, wrong := pod.Declared()
		if !ok || wrong != nil || pod.ServiceUID != uid || pod.Over() || pod.Generation <= newest {
			continue
		}
		err := a.pods.Owned(ctx, pod)
		if refused := (*pods.RefusedError)(nil); errors.As(err, &refused) {
			continue
		}
		if err != nil {
			return "", "", fmt.Errorf("verifying the owner of pod %s: %w", pod.Name, err)
		}
		newest, mode, revision = pod.Generation, declared.Placement, pod.Revision
	}
	return mode, revision, nil
}

// caller returns the pod that the token of a request is bound to.
func (a *Access) caller(r *http.Request) (caller, error) {
	token := authserver.Token(r)
	if token == "" {
		return caller{}, &authserver.RefusedError{
			Status:  http.StatusUnauthorized,
			Message: "a token is required, as `Authorization: Bearer`; " + howTo,
		}
	}
	digest := authserver.DigestOf(token)
	if stored, _ := a.callers.Get(digest); stored != nil {
		if who, ok := stored.(caller); ok {
			return who, nil
		}
	}
	var who caller
	err := a.reviews.Review(r, token, func(_ context.Context, _ kubernetes.Interface,
		user authenticationv1.UserInfo,
	) error {
		var bound bool
		if who, bound = podOf(user); !bound {
			return &authserver.RefusedError{Status: http.StatusUnauthorized, Message: "the token is not bound to a pod"}
		}
		return nil
	})
	if err != nil {
		return caller{}, err //nolint:wrapcheck // a refusal, or complete
	}
	a.callers.Add(digest, who, rememberFor)
	return who, nil
}

const howTo = "mount one with a projected volume: serviceAccountToken with audience " + Audience

// podOf returns the pod that a token is bound to. Only tokens that kubelet requests for a pod are.
func podOf(user authenticationv1.UserInfo) (caller, bool) {
	parts := strings.Split(user.Username, ":")
	name, uid := user.Extra[podNameKey], user.Extra[podUIDKey]
	if len(parts) != 4 || parts[0] != "system" || parts[1] != "serviceaccount" || len(name) != 1 || len(uid) != 1 ||
		name[0] == "" || uid[0] == "" {
		return caller{}, false
	}
	return caller{namespace: parts[2], name: name[0], uid: types.UID(uid[0])}, true
}
