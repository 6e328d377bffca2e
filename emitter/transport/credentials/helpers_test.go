// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials/clientset"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/hosts"
)

const secret = "s3cret"

var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// stage is a keeper with a fake clock and a fake API server.
type stage struct {
	*Keeper
	clock *testingclock.FakeClock
	kube  *fake.Clientset
}

func newStage(objects ...runtime.Object) *stage {
	s := &stage{clock: testingclock.NewFakeClock(start), kube: fake.NewClientset(objects...)}
	s.Keeper = newKeeper(clientset.API{Interface: s.kube}, schemes{}, s.clock, "https://kubernetes.default.svc")
	return s
}

func (s *stage) reads() int { return len(s.kube.Actions()) }

func newSecret(change ...func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "hook",
			Annotations: map[string]string{v1alpha1.SinkHostsAnnotation: "hooks.example.com, *.svc.cluster.local"},
		},
		Data: map[string][]byte{"header": []byte("Bearer " + secret + "\n")},
	}
	for _, f := range change {
		f(s)
	}
	return s
}

func newReferences(change ...func(*References)) References {
	w := References{Source: types.NamespacedName{Namespace: "shop", Name: "releases"}, UID: "u1"}
	for _, f := range change {
		f(&w)
	}
	return w
}

func withHeader(w *References) { w.Authorization = v1alpha1.SecretKey{Name: "hook", Key: "header"} }

func withCertificate(w *References) { w.ClientCertificate.Name = "hook" }

func withAudience(audience string) func(*References) {
	return func(w *References) { w.Audience = audience }
}

func parse(t *testing.T, uri string) *url.URL {
	t.Helper()
	u, err := url.Parse(uri)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// checkWithheld asserts that an error has the reason and the words, and no secret.
func checkWithheld(t *testing.T, err error, reason string, words ...string) {
	t.Helper()
	var p *WithheldError
	if !errors.As(err, &p) || p.Reason != reason {
		t.Errorf("got %v, want it withheld because of %s", err, reason)
		return
	}
	for _, w := range words {
		if !strings.Contains(p.Message, w) {
			t.Errorf("message %q does not contain %q", p.Message, w)
		}
	}
	if strings.Contains(p.Message, secret) {
		t.Errorf("message %q reveals the secret", p.Message)
	}
}

// schemes are those of sinks over HTTP, and of queues that want a login.
type schemes struct{}

func (schemes) Rules(scheme string) Rules {
	if strings.HasPrefix(scheme, "queue") {
		return Rules{Secure: "queues", Login: true}
	}
	return Rules{Secure: "https"}
}

func (schemes) Hosts(u *url.URL) ([]hosts.Host, error) {
	var all []hosts.Host
	names := []string{u.Hostname()}
	if strings.Contains(u.Host, ",") {
		names = strings.Split(u.Host, ",")
	}
	for _, name := range names {
		host, err := hosts.Of(name)
		if err != nil {
			return nil, err
		}
		all = append(all, host)
	}
	return all, nil
}
