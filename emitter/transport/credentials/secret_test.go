// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ktesting "k8s.io/client-go/testing"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/certs"
)

const sink = "https://hooks.example.com/in"

func hostsOf(list string) func(*corev1.Secret) {
	return func(s *corev1.Secret) { s.Annotations = map[string]string{v1alpha1.SinkHostsAnnotation: list} }
}

func withPair(p certs.Pair) func(*corev1.Secret) {
	return func(s *corev1.Secret) {
		s.Type = corev1.SecretTypeTLS
		s.Data = map[string][]byte{corev1.TLSCertKey: p.Certificate, corev1.TLSPrivateKeyKey: p.Key}
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	pair := certs.NewAuthority(t).Issue("me", time.Hour)
	s := newStage(newSecret(), newSecret(withPair(pair), func(s *corev1.Secret) { s.Name = "pair" }))
	s.clock.SetTime(time.Now())
	both := newReferences(withHeader, func(w *References) { w.ClientCertificate.Name = "pair" })
	shown, err := s.For(t.Context(), both, parse(t, sink))
	if err != nil {
		t.Fatal(err)
	}
	req := &http.Request{Header: http.Header{}}
	shown.Authorize(req)
	if got := req.Header.Get("Authorization"); got != "Bearer "+secret {
		t.Errorf("header %q", got)
	}
	if c := shown.Certificate(); c == nil || string(c.Certificate[0]) != string(pair.TLS.Certificate[0]) {
		t.Errorf("certificate %v", c)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		if text := fmt.Sprintf(verb, shown) + fmt.Sprintf(verb, &shown); strings.Contains(text, secret) || !strings.Contains(text, "(credentials)") {
			t.Errorf("%s prints %q", verb, text)
		}
	}

	shown, err = s.For(t.Context(), newReferences(), parse(t, "http://anywhere.example"))
	if err != nil || shown.Certificate() != nil || shown.CertificateID() != [32]byte{} {
		t.Errorf("without spec.auth: got %v, %v", shown, err)
	}
	shown.Authorize(req)
	if req.Header.Get("Authorization") != "Bearer "+secret {
		t.Error("empty credentials removed the header")
	}
}

func TestWithheldSecrets(t *testing.T) {
	t.Parallel()
	ca := certs.NewAuthority(t)
	pair, other := ca.Issue("me", time.Hour), ca.Issue("you", time.Hour)
	mixed := pair
	mixed.Key = other.Key
	tests := []struct {
		name   string
		secret *corev1.Secret
		want   References
		sink   string
		reason string
		says   []string
	}{
		{"not found", newSecret(func(s *corev1.Secret) { s.Name = "other" }), newReferences(withHeader), sink, "SecretNotFound", []string{"Secret hook", "namespace shop", "spec.auth.authorization"}},
		{"in another namespace", newSecret(func(s *corev1.Secret) { s.Namespace = "vault" }), newReferences(withHeader), sink, "SecretNotFound", []string{"namespace shop"}},
		{"without a list of hosts", newSecret(hostsOf("")), newReferences(withHeader), sink, "SecretNotForSink", []string{"knative-cdevents.dev/sink-hosts", `"hooks.example.com"`}},
		{"without annotations", newSecret(func(s *corev1.Secret) { s.Annotations = nil }), newReferences(withHeader), sink, "SecretNotForSink", []string{"knative-cdevents.dev/sink-hosts"}},
		{"for all hosts", newSecret(hostsOf("*")), newReferences(withHeader), sink, "SecretNotForSink", []string{`"*" is not a host`}},
		{"for another host", newSecret(hostsOf("example.com,*.other.example")), newReferences(withHeader), sink, "SecretNotForSink", []string{"host hooks.example.com"}},
		{"for a host with the same prefix", newSecret(), newReferences(withHeader), "https://hooks.example.com.evil.example", "SecretNotForSink", nil},
		{"for a user that looks like the host", newSecret(), newReferences(withCertificate), "https://hooks.example.com@evil.example", "SecretNotForSink", []string{"evil.example"}},
		{"for an address whose zone looks like the host", newSecret(hostsOf("*.example.com")), newReferences(withHeader), "https://[2001:db8::bad%25x.example.com]", "InvalidURI", []string{"zone"}},
		{"a certificate for such an address", newSecret(withPair(pair), hostsOf("*.example.com")), newReferences(withCertificate), "https://[::1%25.example.com]", "InvalidURI", []string{"zone"}},
		{"for a name that looks like the host", newSecret(hostsOf("github.com")), newReferences(withHeader), "https://gİthub.com", "InvalidURI", []string{"xn--"}},
		{"without the key", newSecret(), newReferences(func(w *References) { w.Authorization = v1alpha1.SecretKey{Name: "hook", Key: "token"} }), sink, "SecretKeyNotFound", []string{`"token"`, "spec.auth.authorization.key"}},
		{"empty", newSecret(func(s *corev1.Secret) { s.Data["header"] = []byte(" \n") }), newReferences(withHeader), sink, "InvalidAuthorization", []string{"empty"}},
		{"two lines", newSecret(func(s *corev1.Secret) { s.Data["header"] = []byte("Bearer " + secret + "\r\nX-Evil: 1") }), newReferences(withHeader), sink, "InvalidAuthorization", []string{"one line"}},
		{"plain http", newSecret(), newReferences(withHeader), "http://hooks.example.com/in", "SinkNotEncrypted", []string{"http://hooks.example.com", "https"}},
		{"plain http within the cluster", newSecret(), newReferences(withHeader), "http://a.shop.svc.cluster.local", "SinkNotEncrypted", []string{"https"}},
		{"a certificate over plain http", newSecret(withPair(pair)), newReferences(withCertificate), "http://hooks.example.com", "SinkNotEncrypted", nil},
		{"with an audience", newSecret(), newReferences(withHeader, withAudience("a")), sink, "TwoAuthorizations", []string{`"a"`, "spec.auth.authorization"}},
		{"certificate in a Secret of another type", newSecret(), newReferences(withCertificate), sink, "InvalidClientCertificate", []string{"kubernetes.io/tls"}},
		{"not PEM", newSecret(withPair(certs.Pair{Certificate: []byte(secret), Key: []byte(secret)})), newReferences(withCertificate), sink, "InvalidClientCertificate", []string{"tls.crt", "tls.key"}},
		{"key of another certificate", newSecret(withPair(mixed)), newReferences(withCertificate), sink, "InvalidClientCertificate", []string{"spec.auth.clientCertificate"}},
		{"expired", newSecret(withPair(ca.Issue("me", -time.Hour))), newReferences(withCertificate), sink, "InvalidClientCertificate", []string{"renew"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(tc.secret)
			s.clock.SetTime(time.Now())
			shown, err := s.For(t.Context(), tc.want, parse(t, tc.sink))
			checkWithheld(t, err, tc.reason, tc.says...)
			if shown != (Values{}) {
				t.Error("credentials are returned together with an error")
			}
		})
	}
}

func TestMissingPermissionNamesTheRole(t *testing.T) {
	t.Parallel()
	s := newStage()
	s.kube.PrependReactor("get", "secrets", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "hook", errors.New("no"))
	})
	_, err := s.For(t.Context(), newReferences(withHeader), parse(t, sink))
	checkWithheld(t, err, "SecretForbidden", "knative-cdevents-sink-secrets", "RoleBinding", "namespace shop")
}

// If the API server does not answer, nothing is known about the Secret.
func TestUnavailableAPIServerIsNotWithheld(t *testing.T) {
	t.Parallel()
	s := newStage()
	s.kube.PrependReactor("get", "secrets", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewServiceUnavailable("later")
	})
	_, err := s.For(t.Context(), newReferences(withHeader), parse(t, sink))
	var p *WithheldError
	if errors.As(err, &p) || !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "Secret hook in namespace shop") {
		t.Error(err)
	}
}

func TestSecretsAreReadOncePerMinute(t *testing.T) {
	t.Parallel()
	s := newStage(newSecret())
	value := func() string {
		t.Helper()
		shown, err := s.For(t.Context(), newReferences(withHeader), parse(t, sink))
		if err != nil {
			t.Fatal(err)
		}
		return shown.authorization
	}
	for range 10 {
		value()
	}
	if s.reads() != 1 {
		t.Errorf("read %d times", s.reads())
	}
	change := newSecret(func(s *corev1.Secret) { s.Data["header"] = []byte("Basic new") })
	if _, err := s.kube.CoreV1().Secrets("shop").Update(t.Context(), change, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.clock.Step(freshness - time.Second)
	if value() != "Bearer "+secret {
		t.Error("read too early")
	}
	s.clock.Step(2 * time.Second)
	if value() != "Basic new" {
		t.Error("not read again")
	}
	// A deleted Secret is no longer used after the next read.
	if err := s.kube.CoreV1().Secrets("shop").Delete(t.Context(), "hook", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.clock.Step(freshness)
	before := s.reads()
	for range 10 {
		_, err := s.For(t.Context(), newReferences(withHeader), parse(t, sink))
		checkWithheld(t, err, "SecretNotFound")
	}
	if s.reads() != before+1 {
		t.Errorf("a missing Secret was read %d times, want once", s.reads()-before)
	}
	if err := s.kube.Tracker().Add(newSecret()); err != nil {
		t.Fatal(err)
	}
	s.clock.Step(patience)
	if value() != "Bearer "+secret {
		t.Error("the recreated Secret is not used")
	}
}

func TestRejectedSecretsAreReadAgain(t *testing.T) {
	t.Parallel()
	s := newStage(newSecret())
	w := newReferences(withHeader)
	first, err := s.For(t.Context(), w, parse(t, sink))
	if err != nil {
		t.Fatal(err)
	}
	s.Rejected(w, first)
	if _, err = s.For(t.Context(), w, parse(t, sink)); err != nil || s.reads() != 2 {
		t.Errorf("read %d times, %v", s.reads(), err)
	}
	change := newSecret(func(s *corev1.Secret) { s.Data["header"] = []byte("Basic new") })
	if _, err := s.kube.CoreV1().Secrets("shop").Update(t.Context(), change, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Rejected(w, first)
	if _, err = s.For(t.Context(), w, parse(t, sink)); err != nil {
		t.Fatal(err)
	}
	// Many attempts with the old value fail, but only the first causes another read.
	before := s.reads()
	for range 10 {
		s.Rejected(w, first)
		if _, err = s.For(t.Context(), w, parse(t, sink)); err != nil {
			t.Fatal(err)
		}
	}
	if s.reads() != before {
		t.Errorf("read %d more times", s.reads()-before)
	}
	s.Rejected(newReferences(), Values{})
	s.Rejected(newReferences(withHeader, func(w *References) { w.Authorization.Name = "never read" }), Values{})
}
