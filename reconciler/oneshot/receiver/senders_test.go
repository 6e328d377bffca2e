// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/knative-cdevents/knative-cdevents/reconciler/authserver"
)

func TestSenders(t *testing.T) {
	t.Parallel()
	const doorbell = "system:serviceaccount:ours:doorbell"
	for name, c := range map[string]struct {
		token    string
		audience string
		user     string
		err      error
		status   int // 0 for an answer, or an error of another kind
		says     string
	}{
		"the doorbell":     {"t", "core", doorbell, nil, 0, ""},
		"no token":         {"", "core", doorbell, nil, 401, "audience core"},
		"another audience": {"t", "https://kubernetes.default.svc", doorbell, nil, 401, "audience core"},
		"a stranger":       {"t", "core", "system:serviceaccount:shop:doorbell", nil, 403, "--senders"},
		"a user":           {"t", "core", "doorbell", nil, 403, "--senders"},
		"no API server":    {"t", "core", doorbell, errors.New("connection refused"), 0, "connection refused"},
	} {
		reviews := 0
		kube := fake.NewClientset()
		kube.PrependReactor("create", "tokenreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
			reviews++
			return true, &authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{
				Authenticated: true, Audiences: []string{c.audience}, User: authenticationv1.UserInfo{Username: c.user},
			}}, c.err
		})
		s := NewSenders(kube, kube, "core", types.NamespacedName{Namespace: "ours", Name: "doorbell"})
		r := aboutCart()
		r.Header = http.Header{"Authorization": {"Bearer " + c.token}}
		for range 2 {
			err, status := s.Check(r), 0
			if refused := (*authserver.RefusedError)(nil); errors.As(err, &refused) {
				status = refused.Status
			}
			if status != c.status || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %d, %v", name, status, err)
			}
		}
		if admitted := c.says == ""; admitted && reviews != 1 || !admitted && c.token != "" && reviews != 2 {
			t.Errorf("%s: %d reviews; only who is admitted is remembered", name, reviews)
		}
	}
}
