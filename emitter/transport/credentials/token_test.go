// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"errors"
	"fmt"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ktesting "k8s.io/client-go/testing"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

const identityName = "releases-oidc-knative-cdevents.dev-cdeventsource"

// minting returns a stage whose API server creates numbered tokens, valid for an hour, and
// their count.
func minting(t *testing.T) (*stage, *int) {
	t.Helper()
	s, made := newStage(), 0
	s.kube.PrependReactor("create", "serviceaccounts", func(a ktesting.Action) (bool, runtime.Object, error) {
		create, ok := a.(ktesting.CreateActionImpl)
		if !ok || a.GetSubresource() != "token" {
			return false, nil, nil
		}
		request, ok := create.GetObject().(*authenticationv1.TokenRequest)
		if !ok || create.Name != identityName || a.GetNamespace() != "shop" || len(request.Spec.Audiences) != 1 {
			t.Errorf("request for %s/%s: %+v", a.GetNamespace(), create.Name, create.GetObject())
		}
		made++
		return true, &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{
			Token:               fmt.Sprintf("%s-%s-%d", secret, request.Spec.Audiences[0], made),
			ExpirationTimestamp: metav1.NewTime(s.clock.Now().Add(time.Hour)),
		}}, nil
	})
	return s, &made
}

func (s *stage) shows(t *testing.T, w References) string {
	t.Helper()
	shown, err := s.For(t.Context(), w, parse(t, sink))
	if err != nil {
		t.Fatal(err)
	}
	return shown.authorization
}

func TestTokensAreKeptUntilShortlyBeforeExpiry(t *testing.T) {
	t.Parallel()
	s, made := minting(t)
	w := newReferences(withAudience("broker"))
	for range 5 {
		if got := s.shows(t, w); got != "Bearer s3cret-broker-1" {
			t.Errorf("got credentials %q", got)
		}
	}
	s.clock.Step(54 * time.Minute)
	s.shows(t, w)
	if *made != 1 {
		t.Errorf("%d tokens were created, want 1", *made)
	}
	s.clock.Step(2 * time.Minute)
	if got := s.shows(t, w); got != "Bearer s3cret-broker-2" {
		t.Errorf("got credentials %q", got)
	}
	if got := s.shows(t, newReferences(withAudience("other"))); got != "Bearer s3cret-other-3" {
		t.Errorf("got credentials %q", got)
	}

	// A rejected token is replaced at once, but only once if many attempts have used it.
	old, err := s.For(t.Context(), w, parse(t, sink))
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		s.Rejected(w, old)
		if got := s.shows(t, w); got != "Bearer s3cret-broker-4" {
			t.Errorf("got credentials %q", got)
		}
	}

	account, err := s.kube.CoreV1().ServiceAccounts("shop").Get(t.Context(), identityName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !metav1.IsControlledBy(account, w.owner()) || account.OwnerReferences[0].Kind != v1alpha1.SourceKind.Kind || account.Labels["eventing.knative.dev/oidc"] != "enabled" {
		t.Errorf("%+v", account.ObjectMeta)
	}
	for _, a := range s.kube.Actions() {
		if v := a.GetVerb(); v != "get" && v != "create" {
			t.Errorf("%s of %s", v, a.GetResource().Resource)
		}
	}
}

func TestSinksThatMayReceiveTokens(t *testing.T) {
	t.Parallel()
	for at, problem := range map[string]string{
		"https://broker.example.com":                "",
		"http://broker.eventing.svc":                "",
		"http://broker.eventing.svc.cluster.local":  "",
		"http://BROKER.eventing.svc.cluster.local.": "",
		"http://broker.example.com":                 "SinkNotEncrypted",
		"http://broker.svc.example.com":             "SinkNotEncrypted",
		"http://svc":                                "SinkNotEncrypted",
		"http://10.96.0.7":                          "SinkNotEncrypted",
		"http://.svc":                               "InvalidURI",
		"http://[fd00::5%25.svc]":                   "InvalidURI",
		"http://[fd00::5%25.svc.cluster.local]":     "InvalidURI",
		"http://broker.eventing.ſvc":                "InvalidURI",
	} {
		s, _ := minting(t)
		_, err := s.For(t.Context(), newReferences(withAudience("broker")), parse(t, at))
		if problem == "" {
			if err != nil {
				t.Errorf("%s: %v", at, err)
			}
			continue
		}
		checkWithheld(t, err, problem)
		if s.reads() > 0 {
			t.Errorf("%s: a token was created", at)
		}
	}
}

func TestWithheldTokens(t *testing.T) {
	t.Parallel()
	s, made := minting(t)
	_, err := s.For(t.Context(), newReferences(withAudience("https://kubernetes.default.svc")), parse(t, sink))
	checkWithheld(t, err, "AudienceReserved", "API server")

	other := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: identityName}}
	if err := s.kube.Tracker().Add(other); err != nil {
		t.Fatal(err)
	}
	_, err = s.For(t.Context(), newReferences(withAudience("broker")), parse(t, sink))
	checkWithheld(t, err, "IdentityTaken", identityName, "namespace shop")
	if *made > 0 {
		t.Error("a token was created for a foreign ServiceAccount")
	}
}

func TestMissingPermissionForTokensNamesTheRole(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"get", "create"} {
		s := newStage()
		s.kube.PrependReactor(verb, "serviceaccounts", func(ktesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts"}, identityName, errors.New("no"))
		})
		_, err := s.For(t.Context(), newReferences(withAudience("broker")), parse(t, sink))
		checkWithheld(t, err, "IdentityForbidden", "knative-cdevents-identities", "config/optional", "RoleBinding", "namespace shop")
	}
}
