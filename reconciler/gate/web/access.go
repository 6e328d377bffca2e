package web

import (
	"context"
	"crypto/sha256"
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
	"github.com/knative-cdevents/knative-cdevents/reconciler/httpserver"
)

// Audience that a token must have. A token for the API server is refused, because whoever
// sees it could act as its owner.
const Audience = "knative-cdevents"

// Limits of the caches, and of a review by the API server.
const (
	rememberFor  = 10 * time.Second
	rememberMost = 1024
	reviewWithin = 5 * time.Second
	// knownFor is how long an accepted token counts as known. It is reviewed again when its
	// authorization expires, but does not queue behind unknown tokens.
	knownFor = time.Hour
)

// Access admits clients whose token the API server accepts and who may get the gate.
type Access struct {
	// known reviews recently accepted tokens, and strangers all others. Each has its own
	// rate limit.
	known, strangers kubernetes.Interface
	lane             *httpserver.Lane
	// let caches authorizations by a digest of the token and the gate. It keeps them
	// briefly, so that revoked access ends, and it caches no refusals.
	let *cache.LRUExpireCache
	// tokens are digests of recently accepted tokens. They grant no access.
	tokens *cache.LRUExpireCache
}

// NewAccess reviews recently accepted tokens with known, and all others with strangers.
// Give each client its own rate limit, so that invalid tokens do not delay known ones.
func NewAccess(known, strangers kubernetes.Interface) *Access {
	return &Access{
		known: known, strangers: strangers, lane: httpserver.NewLane(),
		let: cache.NewLRUExpireCache(rememberMost), tokens: cache.NewLRUExpireCache(rememberMost),
	}
}

type digest [sha256.Size]byte

type leave struct {
	token digest
	gate  types.NamespacedName
}

// Check implements Guard.
func (a *Access) Check(r *http.Request, gate types.NamespacedName) error {
	token := httpserver.Token(r)
	if token == "" {
		return &httpserver.RefusedError{Status: http.StatusUnauthorized, Message: "a token of a ServiceAccount is required, as `Authorization: Bearer` or as the password of Basic authentication; " + howTo}
	}
	who := leave{sha256.Sum256([]byte(token)), gate}
	if _, ok := a.let.Get(who); ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewWithin)
	defer cancel()
	kube := a.known
	if _, ok := a.tokens.Get(who.token); !ok {
		done, err := a.lane.Enter(ctx, r)
		if err != nil {
			return err
		}
		defer done()
		kube = a.strangers
	}
	user, err := httpserver.Authenticate(ctx, kube, token, Audience)
	if err == nil {
		err = authorize(ctx, kube, user, gate)
	}
	if refusal := (*httpserver.RefusedError)(nil); errors.As(err, &refusal) {
		a.tokens.Remove(who.token)
		if refusal.Status == http.StatusUnauthorized {
			refusal.Message += "; " + howTo
		}
	}
	if err != nil {
		return err
	}
	a.let.Add(who, true, rememberFor)
	a.tokens.Add(who.token, true, knownFor)
	return nil
}

const howTo = "create one with: kubectl create token NAME --audience=" + Audience

func authorize(ctx context.Context, kube kubernetes.Interface, user authenticationv1.UserInfo, gate types.NamespacedName) error {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	resource := v1alpha1.GateResource
	review, err := kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, Groups: user.Groups, UID: user.UID, Extra: extra,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: gate.Namespace, Name: gate.Name, Verb: "get", Group: resource.Group, Version: resource.Version, Resource: resource.Resource,
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
		return &httpserver.RefusedError{Status: http.StatusForbidden, Message: fmt.Sprintf("%s may not get %s.%s %s in namespace %s; bind it to a Role that allows that",
			user.Username, resource.Resource, resource.Group, gate.Name, gate.Namespace)}
	}
	return nil
}
