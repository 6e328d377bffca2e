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

// Audience that a token must be made for. One that is meant for the API server is
// refused: whoever is shown it could act as its owner.
const Audience = "knative-cdevents"

// Bounds of what is remembered, and of how long the API server may take.
const (
	rememberFor  = 10 * time.Second
	rememberMost = 1024
	reviewWithin = 5 * time.Second
)

// RefusedError is an answer to somebody who may not know.
type RefusedError struct {
	Status  int
	Message string
}

func (r *RefusedError) Error() string { return r.Message }

// Access lets those in whom the API server knows by their token, and lets get the gate.
type Access struct {
	kube kubernetes.Interface
	// let remembers who was let in, by a digest of the token and the gate. Nothing
	// else is remembered, and not for long: a right that is taken away must end.
	let *cache.LRUExpireCache
}

// NewAccess asks by kube, which should be a client of its own: whoever sends wrong
// tokens must not use up what others may ask.
func NewAccess(kube kubernetes.Interface) *Access {
	return &Access{kube: kube, let: cache.NewLRUExpireCache(rememberMost)}
}

type known struct {
	token [sha256.Size]byte
	gate  types.NamespacedName
}

// Check implements Guard.
func (a *Access) Check(r *http.Request, gate types.NamespacedName) error {
	token := tokenOf(r)
	if token == "" {
		return &RefusedError{http.StatusUnauthorized, "a token of a ServiceAccount is needed, as `Authorization: Bearer` or as the password of Basic; " + howTo}
	}
	who := known{sha256.Sum256([]byte(token)), gate}
	if _, ok := a.let.Get(who); ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewWithin)
	defer cancel()
	user, err := a.authenticate(ctx, token)
	if err != nil {
		return err
	}
	if err := a.authorize(ctx, user, gate); err != nil {
		return err
	}
	a.let.Add(who, true, rememberFor)
	return nil
}

const howTo = "make one with: kubectl create token NAME --audience=" + Audience

// tokenOf a request. Flagger cannot send headers, but an address with a password.
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

func (a *Access) authenticate(ctx context.Context, token string) (authenticationv1.UserInfo, error) {
	review, err := a.kube.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{Audience}},
	}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, fmt.Errorf("reviewing a token: %w", err)
	}
	// An authenticator that knows nothing of audiences names none, and means the API
	// server's own.
	if !review.Status.Authenticated || !slices.Contains(review.Status.Audiences, Audience) {
		return authenticationv1.UserInfo{}, &RefusedError{http.StatusUnauthorized, "the token is not valid, or not made for audience " + Audience + "; " + howTo}
	}
	return review.Status.User, nil
}

func (a *Access) authorize(ctx context.Context, user authenticationv1.UserInfo, gate types.NamespacedName) error {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	resource := v1alpha1.GateResource
	review, err := a.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
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
