// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"fmt"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"

	"github.com/knative-cdevents/knative-cdevents/reconciler/authserver"
)

// Limits of the cache.
const (
	rememberFor  = 10 * time.Second
	rememberMost = 64
)

// Senders admits ServiceAccounts whose token the API server accepts.
type Senders struct {
	reviews  *authserver.Reviews
	accounts map[string]bool
	howTo    string
	// admitted caches digests of tokens. It keeps them briefly, so that revoked tokens end, and it caches no refusals.
	admitted *cache.LRUExpireCache
}

// NewSenders admits these ServiceAccounts, with tokens of an audience. It reviews recently accepted tokens with one
// client, known, and all others with another, unknown. Give each client its own rate limit, so that invalid tokens do
// not delay known ones.
func NewSenders(known, unknown kubernetes.Interface, audience string, accounts ...types.NamespacedName) *Senders {
	s := &Senders{
		accounts: map[string]bool{}, admitted: cache.NewLRUExpireCache(rememberMost),
		howTo: "mount a projected token with audience " + audience,
	}
	s.reviews = authserver.NewReviews(known, unknown, audience, s.howTo, rememberMost)
	for _, a := range accounts {
		s.accounts["system:serviceaccount:"+a.Namespace+":"+a.Name] = true
	}
	return s
}

// Check implements Guard.
func (s *Senders) Check(r *http.Request) error {
	token := authserver.Token(r)
	if token == "" {
		return &authserver.RefusedError{
			Status:  http.StatusUnauthorized,
			Message: "a token of a ServiceAccount is required, as `Authorization: Bearer`; " + s.howTo,
		}
	}
	digest := authserver.DigestOf(token)
	if _, ok := s.admitted.Get(digest); ok {
		return nil
	}
	if err := s.reviews.Review(r, token, s.admit); err != nil {
		return err //nolint:wrapcheck // a refusal, or complete
	}
	s.admitted.Add(digest, true, rememberFor)
	return nil
}

func (s *Senders) admit(_ context.Context, _ kubernetes.Interface, user authenticationv1.UserInfo) error {
	if s.accounts[user.Username] {
		return nil
	}
	return &authserver.RefusedError{
		Status:  http.StatusForbidden,
		Message: fmt.Sprintf("%s is no sender of rings; name it with --senders if it is to be one", user.Username),
	}
}
