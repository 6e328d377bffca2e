// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"knative.dev/pkg/apis"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/route"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/certs"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// transcript records everything that is logged and measured.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *transcript) note(args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(&r.text, "%+v\n", args)
}

func (r *transcript) String() string { r.mu.Lock(); defer r.mu.Unlock(); return r.text.String() }

func (r *transcript) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *transcript) Attempt(source, class string)                  { r.note(source, class) }
func (r *transcript) Delivered(source, typ string, _ time.Duration) { r.note(source, typ) }
func (r *transcript) Incomplete(source string)                      { r.note(source) }
func (r *transcript) DeadLetter(source string)                      { r.note(source) }
func (r *transcript) Conflict()                                     {}
func (r *transcript) Dropped(reason string, n int64)                { r.note(reason, n) }
func (r *transcript) Refused()                                      {}

// TestOnlyTheSinkSeesSecrets lets a sink reject a source's secret in every way. The secret must
// not appear in anything that is logged, measured, reported or stored.
func TestOnlyTheSinkSeesSecrets(t *testing.T) {
	t.Parallel()
	const secret = "s3cret-t0ken"
	ca := certs.NewAuthority(t)
	pair := ca.Issue("me", time.Hour)
	answers := []int{401, 403, 407, 500, 302, 404, 429, 400, 202}
	var mu sync.Mutex
	asked := 0
	sink := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if got := r.Header.Get("Authorization"); got != "Bearer "+secret || len(r.TLS.PeerCertificates) != 1 {
			t.Errorf("the sink received %q and %d certificates", got, len(r.TLS.PeerCertificates))
		}
		w.Header().Set("Location", "/"+secret)
		w.WriteHeader(answers[min(asked, len(answers)-1)])
		asked++
		_, _ = fmt.Fprint(w, "you sent ", secret)
	}))
	sink.TLS = &tls.Config{
		Certificates: []tls.Certificate{ca.Issue("sink", time.Hour).TLS}, MinVersion: tls.VersionTLS13,
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool(),
	}
	sink.StartTLS()
	t.Cleanup(sink.Close)

	hosts := map[string]string{v1alpha1.SinkHostsAnnotation: "127.0.0.1"}
	kube := fake.NewClientset(
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "hook", Annotations: hosts}, Data: map[string][]byte{"header": []byte("Bearer " + secret)}},
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "pair", Annotations: hosts}, Type: corev1.SecretTypeTLS,
			Data: map[string][]byte{corev1.TLSCertKey: pair.Certificate, corev1.TLSPrivateKeyKey: pair.Key},
		},
	)
	source := sourceTo("hooked", "")
	uri, err := apis.ParseURL(sink.URL)
	if err != nil {
		t.Fatal(err)
	}
	source.Status.SinkURI, source.Status.SinkCACerts = uri, &ca.PEM
	source.Spec.Auth = &v1alpha1.Auth{
		Authorization:     &v1alpha1.SecretKey{Name: "hook", Key: "header"},
		ClientCertificate: &v1alpha1.SecretName{Name: "pair"},
	}

	said := &transcript{}
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewDevelopmentEncoderConfig()), zapcore.AddSync(said), zapcore.DebugLevel)
	ctx, cancel := context.WithCancel(logging.WithLogger(context.Background(), zap.New(core).Sugar()))
	subjects := store.New()
	s := &stage{store: subjects, cancel: cancel}
	s.ledger = ledger.New(subjects, &route.Router{
		Sources:   listed{source},
		Namespace: func(string) (map[string]string, bool, error) { return nil, false, nil },
		Settings:  listed{},
		Render:    cdevents.Render,
	}, said)
	s.Delivery = New(ctx, Options{
		Ledger: s.ledger, Transport: overHTTP(kube),
		Render: cdevents.Render, Metrics: said, WorkersPerSource: 1, ProbeEvery: time.Millisecond,
		Leader: always,
	})
	s.ledger.UseDelivery(routed{s.Delivery, t})
	var wg sync.WaitGroup
	wg.Go(func() { s.ledger.Run(ctx, 1) })
	s.UpdateSource(source)
	t.Cleanup(func() { cancel(); s.Wait(); wg.Wait() })

	s.happens(t, "cart", lifecycle.Created, lifecycle.Deployed)
	q := s.queues[source.UID]
	s.eventually(t, "both events are delivered or dropped", func() bool {
		q.mu.Lock()
		q.retries = retries{} // retry at once
		q.mu.Unlock()
		s.Resume()
		pending, _, _, problem := s.SourceStatus(source.UID)
		said.note(problem)
		return pending == 0 && s.pending(source.UID) == 0
	})
	stored, err := json.Marshal(subjects.All())
	if err != nil {
		t.Fatal(err)
	}
	said.note(string(stored))

	text := said.String()
	for _, word := range []string{"401", "403", "500", "redirect", "400", "shop/hooked", "cart"} {
		if !strings.Contains(text, word) {
			t.Errorf("the transcript is incomplete: it does not contain %q", word)
		}
	}
	key := strings.Split(string(pair.Key), "\n")[1]
	for _, hidden := range []string{secret, key} {
		if strings.Contains(text, hidden) {
			t.Errorf("%q is in the transcript:\n%s", hidden, text)
		}
	}
}
