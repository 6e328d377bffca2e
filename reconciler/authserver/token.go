// SPDX-License-Identifier: Apache-2.0

package authserver

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// RefusedError is the response to a client without access.
type RefusedError struct {
	Status  int
	Message string
}

func (r *RefusedError) Error() string { return r.Message }

// Token returns the token of a request, or nothing. Flagger cannot set headers, but its URL can
// contain a password.
func Token(r *http.Request) string {
	if _, password, ok := r.BasicAuth(); ok {
		return password
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// authenticate returns whose token this is, if it was created for the audience. The error is a
// *RefusedError, or explains why the API server could not be asked.
func authenticate(ctx context.Context, kube kubernetes.Interface, token, audience string) (authenticationv1.UserInfo,
	error,
) {
	review, err := kube.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{audience}},
	}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, fmt.Errorf("reviewing a token: %w", err)
	}
	// An authenticator without support for audiences returns none, and has validated the
	// token for the API server's own audience.
	if !review.Status.Authenticated || !slices.Contains(review.Status.Audiences, audience) {
		return authenticationv1.UserInfo{}, &RefusedError{
			http.StatusUnauthorized,
			"the token is not valid, or not created for audience " + audience,
		}
	}
	return review.Status.User, nil
}
