// SPDX-License-Identifier: Apache-2.0

package http

import (
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials/clientset"
	"github.com/knative-cdevents/knative-cdevents/test/certs"
)

func secretFor(hosts string, data map[string]string, typ corev1.SecretType) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "hook", Annotations: map[string]string{v1alpha1.SinkHostsAnnotation: hosts}},
		Type:       typ, Data: map[string][]byte{},
	}
	for key, value := range data {
		s.Data[key] = []byte(value)
	}
	return s
}

func want(change func(*credentials.References)) credentials.References {
	w := credentials.References{UID: "source-1"}
	w.Source.Namespace, w.Source.Name = "shop", "releases"
	change(&w)
	return w
}

// collecting records the Authorization header of each request, and accepts only one value.
type collecting struct {
	*httptest.Server
	mu    sync.Mutex
	seen  []string
	right string
}

func newCollecting(t *testing.T, pair certs.Pair, right string) *collecting {
	t.Helper()
	c := &collecting{right: right}
	c.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.seen = append(c.seen, r.Header.Get("Authorization"))
		if c.seen[len(c.seen)-1] != c.right {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	c.TLS = &tls.Config{Certificates: []tls.Certificate{pair.TLS}, MinVersion: tls.VersionTLS13}
	c.StartTLS()
	t.Cleanup(c.Close)
	return c
}

func (c *collecting) set(right string) { c.mu.Lock(); defer c.mu.Unlock(); c.right = right }

func TestAuthorizationIsReloadedAfterARejection(t *testing.T) {
	t.Parallel()
	ca := certs.NewAuthority(t)
	s := newCollecting(t, ca.Issue("sink", time.Hour), "Bearer one"+secret)
	kube := fake.NewClientset(secretFor("127.0.0.1", map[string]string{"token": "Bearer one" + secret + "\n"}, corev1.SecretTypeOpaque))
	clients := with(credentials.NewKeeper(clientset.API{Interface: kube}, Schemes))
	to := transport.Target{URL: s.URL, CACerts: ca.PEM, Source: "source-1", Credentials: want(func(w *credentials.References) {
		w.Authorization = v1alpha1.SecretKey{Name: "hook", Key: "token"}
	})}
	send := func(want transport.Class) {
		t.Helper()
		out := clients.Send(t.Context(), to, newEvent(t), quick())
		if out.Class != want {
			t.Errorf("got %v, want %v", out, want)
		}
		if want != transport.Acknowledged {
			checkError(t, out.Err, "401")
		}
	}
	send(transport.Acknowledged)
	send(transport.Acknowledged)
	if n := len(kube.Actions()); n != 1 {
		t.Errorf("the Secret was read %d times", n)
	}
	// The token changes at the sink first, then in the cluster.
	s.set("Bearer two" + secret)
	send(transport.Unauthorized)
	send(transport.Unauthorized)
	if _, err := kube.CoreV1().Secrets("shop").Update(t.Context(),
		secretFor("127.0.0.1", map[string]string{"token": "Bearer two" + secret}, corev1.SecretTypeOpaque), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	send(transport.Acknowledged)
	for _, a := range kube.Actions() {
		if verb := a.GetVerb(); verb != "get" && verb != "update" {
			t.Errorf("%s of %s", verb, a.GetResource().Resource)
		}
	}
}

func TestNothingIsSentIfCredentialsAreWithheld(t *testing.T) {
	t.Parallel()
	ca := certs.NewAuthority(t)
	s := newCollecting(t, ca.Issue("sink", time.Hour), "")
	plain := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("sent over plain http") })
	show := want(func(w *credentials.References) { w.Authorization = v1alpha1.SecretKey{Name: "hook", Key: "token"} })
	for name, tc := range map[string]struct {
		secret *corev1.Secret
		url    string
		says   string
	}{
		"no Secret":  {nil, s.URL, "does not exist"},
		"plain http": {secretFor("127.0.0.1", map[string]string{"token": secret}, ""), plain.URL, "https"},
		"other host": {secretFor("a.example", map[string]string{"token": secret}, ""), s.URL, "may not be sent to"},
	} {
		kube := fake.NewClientset()
		if tc.secret != nil {
			kube = fake.NewClientset(tc.secret)
		}
		clients := with(credentials.NewKeeper(clientset.API{Interface: kube}, Schemes))
		out := clients.Send(t.Context(), transport.Target{URL: tc.url, CACerts: ca.PEM, Source: "source-1", Credentials: show}, newEvent(t), quick())
		var p *credentials.WithheldError
		if out.Class != transport.Unauthorized || out.Status != 0 || !errors.As(out.Err, &p) {
			t.Errorf("%s: %v", name, out)
		}
		checkError(t, out.Err, tc.says)
	}
	if len(s.seen) > 0 {
		t.Errorf("sent with %q", s.seen)
	}
}

func TestClientCertificatesAreReloaded(t *testing.T) {
	t.Parallel()
	ca, clientCA := certs.NewAuthority(t), certs.NewAuthority(t)
	var mu sync.Mutex
	var shown []int64
	refused := map[int64]bool{}
	s := newChanging(t, ca.Issue("sink", time.Hour), func(c *tls.Config) {
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, clientCA.Pool()
		c.VerifyConnection = func(state tls.ConnectionState) error {
			mu.Lock()
			defer mu.Unlock()
			serial := state.PeerCertificates[0].SerialNumber.Int64()
			if refused[serial] {
				return errors.New("revoked")
			}
			shown = append(shown, serial)
			return nil
		}
	})
	one, two, three := clientCA.Issue("one", time.Hour), clientCA.Issue("two", time.Hour), clientCA.Issue("three", time.Hour)
	secretWith := func(p certs.Pair) *corev1.Secret {
		return secretFor("127.0.0.1", map[string]string{"tls.crt": string(p.Certificate), "tls.key": string(p.Key)}, corev1.SecretTypeTLS)
	}
	kube := fake.NewClientset(secretWith(one))
	keeper := credentials.NewKeeper(clientset.API{Interface: kube}, Schemes)
	clients := with(keeper)
	to := transport.Target{URL: s.URL, CACerts: ca.PEM, Source: "source-1", Credentials: want(func(w *credentials.References) { w.ClientCertificate.Name = "hook" })}
	replace := func(p certs.Pair) {
		t.Helper()
		if _, err := kube.CoreV1().Secrets("shop").Update(t.Context(), secretWith(p), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	send := func(to transport.Target) transport.Outcome {
		return clients.Send(t.Context(), to, newEvent(t), quick())
	}

	// Without a certificate, the error names the missing field.
	without := to
	without.Credentials = credentials.References{}
	out := send(without)
	if out.Class != transport.Unauthorized {
		t.Error(out)
	}
	checkError(t, out.Err, "spec.auth.clientCertificate")

	for range 2 {
		if out := send(to); out.Class != transport.Acknowledged {
			t.Error(out)
		}
	}
	// After the Secret changes and is read again, the old connection is not reused.
	replace(two)
	old, err := keeper.For(t.Context(), to.Credentials, mustParse(t, s.URL))
	if err != nil {
		t.Fatal(err)
	}
	keeper.Rejected(to.Credentials, old)
	for range 2 {
		if out := send(to); out.Class != transport.Acknowledged {
			t.Error(out)
		}
	}
	// The sink rejects the second certificate, so the next attempt uses the third.
	mu.Lock()
	refused[two.Serial] = true
	mu.Unlock()
	replace(three)
	clients.closeIdle()
	if out = send(to); out.Class != transport.Unauthorized {
		t.Error(out)
	}
	checkError(t, out.Err, "did not accept the client certificate")
	if out := send(to); out.Class != transport.Acknowledged {
		t.Error(out)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(shown) != 3 || shown[0] != one.Serial || shown[1] != two.Serial || shown[2] != three.Serial {
		t.Errorf("certificates %v, want each of %d, %d and %d once", shown, one.Serial, two.Serial, three.Serial)
	}
}
