// SPDX-License-Identifier: Apache-2.0

package service

import (
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"knative.dev/serving/pkg/client/clientset/versioned"
)

// installed knows that all definitions exist.
type installed struct{}

func (installed) Synced() bool       { return true }
func (installed) Has(...string) bool { return true }

// An API server that does not serve a kind says nothing about an object. The client gives its answer the name of the
// object, as if it were about that.
func TestAnAnswerThatIsNotAboutAnObjectDoesNotEndIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body, typ string
		gone      bool
	}{
		"no such kind": {"404 page not found\n", "text/plain; charset=utf-8", false},
		"no such Service": {
			`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"details":{"name":"cart"}}`,
			"application/json", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.typ)
				w.WriteHeader(http.StatusNotFound)
				_, _ = w.Write([]byte(c.body))
			}))
			t.Cleanup(server.Close)
			k := NewKind(versioned.NewForConfigOrDie(&rest.Config{Host: server.URL}), nil, installed{}, nil)
			uid, err := k.Live(t.Context(), types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: "cart"})
			if uid != "" || (err == nil) != c.gone {
				t.Errorf("got %q (%v); it is gone: %v", uid, err, c.gone)
			}
			if parts, err := k.fetch(t.Context(), metav1.NamespaceDefault, []string{"cart"}); len(parts) > 0 || (err == nil) != c.gone {
				t.Errorf("a Revision: got %v (%v); it is gone: %v", parts, err, c.gone)
			}
		})
	}
}
