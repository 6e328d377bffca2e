package web

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
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

// RefusedError is the response to a client without access.
type RefusedError struct {
	Status  int
	Message string
}

func (r *RefusedError) Error() string { return r.Message }

// Access admits clients whose token the API server accepts and who may get the gate.
type Access struct {
	// known reviews recently accepted tokens, and strangers all others. Each has its own
	// rate limit.
	known, strangers kubernetes.Interface
	lane             lane
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
		known: known, strangers: strangers, lane: newLane(),
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
	token := tokenOf(r)
	if token == "" {
		return &RefusedError{http.StatusUnauthorized, "a token of a ServiceAccount is required, as `Authorization: Bearer` or as the password of Basic authentication; " + howTo}
	}
	who := leave{sha256.Sum256([]byte(token)), gate}
	if _, ok := a.let.Get(who); ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewWithin)
	defer cancel()
	kube := a.known
	if _, ok := a.tokens.Get(who.token); !ok {
		done, err := a.lane.enter(ctx, host(r))
		if err != nil {
			return err
		}
		defer done()
		kube = a.strangers
	}
	user, err := authenticate(ctx, kube, token)
	if err == nil {
		err = authorize(ctx, kube, user, gate)
	}
	if refusal := (*RefusedError)(nil); errors.As(err, &refusal) {
		a.tokens.Remove(who.token)
	}
	if err != nil {
		return err
	}
	a.let.Add(who, true, rememberFor)
	a.tokens.Add(who.token, true, knownFor)
	return nil
}

const howTo = "create one with: kubectl create token NAME --audience=" + Audience

// tokenOf returns the token of a request. Flagger cannot set headers, but its URL can
// contain a password.
func tokenOf(r *http.Request) string {
	if _, password, ok := r.BasicAuth(); ok {
		return password
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

func authenticate(ctx context.Context, kube kubernetes.Interface, token string) (authenticationv1.UserInfo, error) {
	review, err := kube.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{Audience}},
	}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, fmt.Errorf("reviewing a token: %w", err)
	}
	// An authenticator without support for audiences returns none, and has validated the
	// token for the API server's own audience.
	if !review.Status.Authenticated || !slices.Contains(review.Status.Audiences, Audience) {
		return authenticationv1.UserInfo{}, &RefusedError{http.StatusUnauthorized, "the token is not valid, or not created for audience " + Audience + "; " + howTo}
	}
	return review.Status.User, nil
}

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
		return &RefusedError{http.StatusForbidden, fmt.Sprintf("%s may not get %s.%s %s in namespace %s; bind it to a Role that allows that",
			user.Username, resource.Resource, resource.Group, gate.Name, gate.Namespace)}
	}
	return nil
}
