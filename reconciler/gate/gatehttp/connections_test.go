// SPDX-License-Identifier: Apache-2.0

package gatehttp

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/knative-cdevents/knative-cdevents/reconciler/authserver"
)

// slowReviews accepts only token "good", and is slow for all others.
func slowReviews(took time.Duration) kubernetes.Interface {
	kube := fake.NewClientset()
	kube.PrependReactor("create", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		create, _ := a.(clienttesting.CreateAction)
		switch review := create.GetObject().(type) {
		case *authenticationv1.TokenReview:
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: review.Spec.Token == "good", Audiences: []string{Audience}}
			if !review.Status.Authenticated {
				time.Sleep(took)
			}
			return true, review, nil
		case *authorizationv1.SubjectAccessReview:
			review.Status.Allowed = true
			return true, review, nil
		}
		return false, nil, nil
	})
	return kube
}

// accessBy uses two clients, as the controller does: a fake client serves one request at a time.
func accessBy(took time.Duration) *Access { return NewAccess(slowReviews(took), slowReviews(took)) }

// serveGate serves the gate shop/cart as the controller does, and returns its address.
func serveGate(t *testing.T, access *Access) string {
	t.Helper()
	all := &caches{gate: judged("Pass"), service: inForce()}
	handler := (&Handler{Gates: all, Services: all, Guard: access, Logger: zap.NewNop().Sugar()}).Init()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := authserver.ServeListener(ctx, listener, t.TempDir(), handler); err != nil && !strings.Contains(err.Error(), "context deadline exceeded") {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return listener.Addr().String()
}

// knock sends one request and returns the status of the response, or 0 if there is none within two seconds.
func knock(t *testing.T, at, token string) int {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 2 * time.Second}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at+"/v1/gates/shop/cart", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := client.Do(r)
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}

func dial(t *testing.T, at string) net.Conn {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A client that sends its body slowly and without a token delays no other client.
func TestSlowPostsWithoutAToken(t *testing.T) {
	t.Parallel()
	at := serveGate(t, accessBy(0))
	for range 2 * busy {
		c := dial(t, at)
		if _, err := fmt.Fprint(c, "POST /v1/gates/shop/cart HTTP/1.1\r\nHost: gates\r\nContent-Length: 1000\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(200 * time.Millisecond)
	if status := knock(t, at, "good"); status != http.StatusOK {
		t.Errorf("a valid token gets %d", status)
	}
	// The server refuses at once and closes the connection without waiting for the body.
	c := dial(t, at)
	if _, err := fmt.Fprint(c, "POST /v1/gates/shop/cart HTTP/1.1\r\nHost: gates\r\nContent-Length: 1000\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized || !response.Close {
		t.Errorf("%d, closed: %v", response.StatusCode, response.Close)
	}
}

// Idle connections are closed in favor of active ones.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	at := serveGate(t, accessBy(0))
	for i := range 2 * authserver.MaxConnected {
		c := dial(t, at)
		if i%2 == 0 { // half of them send an incomplete request
			if _, err := fmt.Fprint(c, "GET /v1/gates/shop/cart HTTP/1.1\r\n"); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 3 {
		if status := knock(t, at, "good"); status != http.StatusOK {
			t.Errorf("a valid token gets %d", status)
		}
	}
}

// Requests with unknown tokens delay neither those with known tokens nor those from other addresses.
func TestStrangersWithBadTokens(t *testing.T) {
	t.Parallel()
	access := accessBy(300 * time.Millisecond)
	at := serveGate(t, access)
	if status := knock(t, at, "good"); status != http.StatusOK {
		t.Fatalf("a valid token gets %d", status)
	}
	stop := make(chan struct{})
	stopped := func() bool {
		select {
		case <-stop:
			return true
		default:
			return false
		}
	}
	var unknown sync.WaitGroup
	for i := range 60 {
		unknown.Go(func() {
			for n := 0; !stopped(); n++ {
				if status := knock(t, at, fmt.Sprintf("bad-%d-%d", i, n)); status == http.StatusOK {
					t.Error("a bad token was accepted")
				}
			}
		})
	}
	time.Sleep(200 * time.Millisecond)
	for n := range 10 {
		// As if the authorization had expired: the token must be reviewed again.
		access.allowed.RemoveAll(func(any) bool { return true })
		if status := knock(t, at, "good"); status != http.StatusOK {
			t.Errorf("asked %d times: a valid token gets %d", n, status)
		}
		time.Sleep(20 * time.Millisecond)
	}
	close(stop)
	unknown.Wait()
}
