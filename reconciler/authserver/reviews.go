// SPDX-License-Identifier: Apache-2.0

package authserver

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
)

const (
	// ReviewWithin limits a review by the API server.
	ReviewWithin = 5 * time.Second
	// knownFor is how long an accepted token counts as known. It is reviewed again when its
	// authorization expires, but does not queue behind unknown tokens.
	knownFor = time.Hour
)

// Digest stands for a token in caches.
type Digest [sha256.Size]byte

// DigestOf returns the digest of a token.
func DigestOf(token string) Digest { return sha256.Sum256([]byte(token)) }

// Reviews asks the API server about the tokens of requests. Unknown tokens never delay those
// that it accepted recently.
type Reviews struct {
	// known reviews recently accepted tokens, and unknown all others. Each has its own
	// rate limit.
	known, unknown  kubernetes.Interface
	audience, howTo string
	queue           *reviewQueue
	// tokens are digests of recently accepted tokens. They grant no access.
	tokens *cache.LRUExpireCache
}

// NewReviews reviews tokens of an audience: recently accepted ones, at most that many, with
// known, and all others with unknown. Give each client its own rate limit. howTo tells a
// client without a valid token how to get one.
func NewReviews(known, unknown kubernetes.Interface, audience, howTo string, most int) *Reviews {
	return &Reviews{
		known: known, unknown: unknown, audience: audience, howTo: howTo,
		queue: newReviewQueue(), tokens: cache.NewLRUExpireCache(most),
	}
}

// Review accepts the token of a request if it is valid and accept, which may ask the API server
// more about its user, returns no error. An error is a *RefusedError, or explains why the
// API server could not be asked.
func (v *Reviews) Review(r *http.Request, token string,
	accept func(context.Context, kubernetes.Interface, authenticationv1.UserInfo) error,
) error {
	ctx, cancel := context.WithTimeout(r.Context(), ReviewWithin)
	defer cancel()
	digest, kube := DigestOf(token), v.known
	if _, ok := v.tokens.Get(digest); !ok {
		done, err := v.queue.enter(ctx, host(r))
		if err != nil {
			return err
		}
		defer done()
		kube = v.unknown
	}
	user, err := authenticate(ctx, kube, token, v.audience)
	if err == nil {
		err = accept(ctx, kube, user)
	}
	if refusal := (*RefusedError)(nil); errors.As(err, &refusal) {
		v.tokens.Remove(digest)
		if refusal.Status == http.StatusUnauthorized {
			refusal.Message += "; " + v.howTo
		}
	}
	if err != nil {
		return err
	}
	v.tokens.Add(digest, true, knownFor)
	return nil
}
