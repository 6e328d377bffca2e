// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/knative-cdevents/knative-cdevents/reconciler/authserver"
)

var cart = types.NamespacedName{Namespace: "shop", Name: "cart"}

// reviewer returns the configured reviews, and counts them.
type reviewer struct {
	*Access
	reviews int
	token   authenticationv1.TokenReviewStatus
	rights  authorizationv1.SubjectAccessReviewStatus
	err     error
	clock   time.Time
}

// Now implements cache.Clock.
func (r *reviewer) Now() time.Time { return r.clock }

func newReviewer() *reviewer {
	r := &reviewer{
		token:  authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: []string{Audience}, User: authenticationv1.UserInfo{Username: "flagger", Groups: []string{"g"}}},
		rights: authorizationv1.SubjectAccessReviewStatus{Allowed: true},
		clock:  time.Now(),
	}
	kube := fake.NewClientset()
	kube.PrependReactor("create", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		r.reviews++
		create, _ := a.(clienttesting.CreateAction)
		switch review := create.GetObject().(type) {
		case *authenticationv1.TokenReview:
			review.Status = r.token
			return true, review, r.err
		case *authorizationv1.SubjectAccessReview:
			at := review.Spec.ResourceAttributes
			if review.Spec.User != "flagger" || len(review.Spec.Groups) != 1 || at.Namespace != "shop" || at.Verb != "get" ||
				at.Resource != "canarygates" || at.Group != "knative-cdevents.dev" {
				return true, nil, errors.New("something else was asked")
			}
			review.Status = r.rights
			return true, review, r.err
		}
		return false, nil, nil
	})
	r.Access = NewAccess(kube, kube)
	r.let = cache.NewLRUExpireCacheWithClock(rememberMost, r)
	return r
}

func bearing(token string) *http.Request {
	request := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil)
	request.Header.Set("Authorization", "Bearer "+token)
	return request
}

func TestTokensOfRequests(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"":                         "",
		"Bearer abc":               "abc",
		"bearer  abc ":             "abc",
		"Bearer":                   "",
		"Digest abc":               "",
		"abc":                      "",
		"Basic ZmxhZ2dlcjphYmM=":   "abc", // flagger:abc
		"Basic OmFiYw==":           "abc", // :abc
		"Basic ZmxhZ2dlcg==":       "",    // flagger
		"Basic not really base 64": "",
	} {
		request := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil)
		request.Header.Set("Authorization", header)
		if got := authserver.Token(request); got != want {
			t.Errorf("%q: %q", header, got)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*reviewer)
		token  string
		status int // 0: the check failed
		says   string
	}{
		"no token":       {func(*reviewer) {}, "", 401, "--audience=knative-cdevents"},
		"a wrong token":  {func(r *reviewer) { r.token.Authenticated = false }, "t", 401, "--audience=knative-cdevents"},
		"other audience": {func(r *reviewer) { r.token.Audiences = []string{"https://kubernetes.default.svc"} }, "t", 401, "audience knative-cdevents"},
		"no audience":    {func(r *reviewer) { r.token.Audiences = nil }, "t", 401, "audience knative-cdevents"},
		"no right":       {func(r *reviewer) { r.rights.Allowed = false }, "t", 403, "flagger may not get canarygates.knative-cdevents.dev cart in namespace shop"},
		"denied":         {func(r *reviewer) { r.rights.Denied = true }, "t", 403, "may not get"},
		"no API server":  {func(r *reviewer) { r.err = errors.New("connection refused") }, "t", 0, "connection refused"},
		"no authorizer": {func(r *reviewer) {
			r.rights = authorizationv1.SubjectAccessReviewStatus{EvaluationError: "webhook is away"}
		}, "t", 0, "webhook is away"},
	} {
		r := newReviewer()
		c.change(r)
		for range 2 { // a refusal is not cached
			err := r.Check(bearing(c.token), cart)
			refusal := (*authserver.RefusedError)(nil)
			if err == nil || errors.As(err, &refusal) != (c.status != 0) || (refusal != nil && refusal.Status != c.status) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", name, err)
			}
		}
		before := r.reviews
		_ = r.Check(bearing(c.token), cart)
		if (c.token != "") != (r.reviews > before) {
			t.Errorf("%s: %d reviews", name, r.reviews-before)
		}
	}
}

func TestAuthorizationExpires(t *testing.T) {
	t.Parallel()
	r := newReviewer()
	check := func(token string, gate types.NamespacedName, reviews int) {
		t.Helper()
		r.reviews = 0
		if err := r.Check(bearing(token), gate); err != nil || r.reviews != reviews {
			t.Errorf("%s of %s: %d reviews, %v", token, gate, r.reviews, err)
		}
	}
	check("t", cart, 2)
	check("t", cart, 0)
	check("u", cart, 2)
	check("t", types.NamespacedName{Namespace: "shop", Name: "till"}, 2)
	r.clock = r.clock.Add(rememberFor + time.Millisecond)
	check("t", cart, 2)
	r.clock = r.clock.Add(rememberFor + time.Millisecond)
	r.rights.Allowed = false
	if err := r.Check(bearing("t"), cart); err == nil {
		t.Error("a revoked right is still valid")
	}
}
