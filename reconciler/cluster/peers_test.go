// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/cluster/web"
	"github.com/knative-cdevents/knative-cdevents/reconciler/pods"
)

// living are the pods of a cache that lags behind the API server.
type living struct {
	*scene
	cached known
}

func (l *living) Of(service types.NamespacedName) []*pods.Pod { return l.cached.Of(service) }

func (l *living) Live(ctx context.Context, pod types.NamespacedName, uid types.UID) (bool, error) {
	found, err := l.kube.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	return err == nil && found.UID == uid, nil
}

// register registers a process of a pod, and returns the status and the plan.
func (s *scene) register(token, body string) (int, v1alpha1.ShardPlacementStatus) {
	s.Helper()
	return s.member(http.MethodPut, token, body)
}

func (s *scene) leave(token, body string) (int, v1alpha1.ShardPlacementStatus) {
	s.Helper()
	return s.member(http.MethodDelete, token, body)
}

func (s *scene) member(method, token, body string) (int, v1alpha1.ShardPlacementStatus) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method,
		s.at+"/v1/namespaces/default/services/cart/placement/member", strings.NewReader(body))
	must(s.T, err)
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(r)
	must(s.T, err)
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	must(s.T, err)
	var plan v1alpha1.ShardPlacementStatus
	if response.StatusCode == http.StatusOK {
		must(s.T, json.Unmarshal(raw, &plan))
	}
	return response.StatusCode, plan
}

// living has the pods of the scene in a cache, with addresses.
func (s *scene) living() *living {
	cache := &living{scene: s, cached: s.pods}
	s.placer.Living = cache
	for i, p := range s.pods {
		p.IP = fmt.Sprintf("10.0.0.%d", i+1)
	}
	return cache
}

func registration(ip string, pin int) string {
	return fmt.Sprintf(`{"address":"%s:8482","pin":"%064x"}`, ip, pin)
}

func TestMembersRegister(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	cache := s.living()
	stable, canary := s.token("stable", "stable", web.Audience), s.token("canary", "canary", web.Audience)
	// Both at once: whoever is second sees the first.
	var plans [2]v1alpha1.ShardPlacementStatus
	var both sync.WaitGroup
	for i, token := range []string{stable, canary} {
		both.Go(func() {
			status, plan := s.register(token, registration(fmt.Sprintf("10.0.0.%d", i+1), i+1))
			if plans[i] = plan; status != http.StatusOK {
				t.Errorf("pod %d: %d", i, status)
			}
		})
	}
	both.Wait()
	first, second := plans[0], plans[1]
	if first.Version > second.Version {
		first, second = second, first
	}
	if len(first.Peers) != 1 || len(second.Peers) != 2 || second.Version <= first.Version || second.Mode != v1alpha1.PlacementEnforce {
		t.Fatalf("%+v, then %+v", first, second)
	}
	if status, again := s.register(stable, registration("10.0.0.1", 1)); status != http.StatusOK || again.Version != second.Version {
		t.Errorf("again: %d, version %d after %d", status, again.Version, second.Version)
	}
	for what, c := range map[string]struct {
		token, body string
		want        int
	}{
		"a pod without a plan":      {s.token("plain", "plain", web.Audience), registration("10.0.0.4", 4), 403},
		"an impostor":               {s.token("impostor", "impostor", web.Audience), registration("10.0.0.3", 3), 403},
		"a pod that is leaving":     {s.token("leaving", "leaving", web.Audience), registration("10.0.0.5", 5), 403},
		"a token without a pod":     {s.token("stable", "", web.Audience), registration("10.0.0.1", 6), 401},
		"no token":                  {"", registration("10.0.0.1", 6), 401},
		"another pod's address":     {stable, registration("10.0.0.2", 6), 409},
		"another pod's pin":         {stable, registration("10.0.0.1", 2), 409},
		"a pin that is none":        {stable, `{"address":"10.0.0.1:8482","pin":"ff"}`, 400},
		"what is not JSON":          {stable, `address`, 400},
		"more than it may":          {stable, `{"address":"` + strings.Repeat(" ", 2000) + `"}`, 400},
		"an address without a port": {stable, fmt.Sprintf(`{"address":"10.0.0.1","pin":"%064x"}`, 1), 409},
	} {
		if status, _ := s.register(c.token, c.body); status != c.want {
			t.Errorf("%s: %d, want %d", what, status, c.want)
		}
	}
	// A member leaves once, and only for itself.
	if status, _ := s.leave(stable, registration("10.0.0.2", 2)); status != http.StatusNotFound {
		t.Errorf("leaving for another one: %d", status)
	}
	for range 2 {
		status, left := s.leave(stable, registration("10.0.0.1", 1))
		if status != http.StatusOK || left.Version != second.Version+1 || !left.Peers[0].Left == !left.Peers[1].Left {
			t.Errorf("leaving: %d %+v", status, left)
		}
	}
	// A process after one that has left need not wait for it, and one after a process that has not must.
	for restarts := range int32(2) {
		status, restarted := s.register(stable, registration("10.0.0.1", 7+int(restarts)))
		if status != http.StatusOK || len(restarted.Peers) != 2 || restarted.Peers[1].Restarts != restarts ||
			restarted.Peers[1].Pod != "stable" || restarted.Peers[1].Left {
			t.Errorf("a restart: %d %+v", status, restarted.Peers)
		}
	}

	// The plan keeps the members, and learns what becomes of their pods.
	peers := func() []v1alpha1.PlacementPeer {
		t.Helper()
		_, err := s.placer.Place(t.Context(), cart, s.layout)
		must(t, err)
		stored, err := s.ours.ShardPlacements(namespace).Get(t.Context(), "service-uid-cart", metav1.GetOptions{})
		must(t, err)
		return stored.Status.Peers
	}
	s.shares = []lifecycle.Share{{Revision: "cart-00001", Percent: 100}}
	if got := peers(); len(got) != 2 || got[0].Gone || got[1].Gone {
		t.Errorf("after a plan: %+v", got)
	}
	cache.cached = nil // it lags behind
	if got := peers(); len(got) != 2 || got[0].Gone || got[1].Gone {
		t.Errorf("with a cache that lags behind: %+v", got)
	}
	none := int64(0)
	must(t, s.kube.CoreV1().Pods(namespace).Delete(t.Context(), "stable", metav1.DeleteOptions{GracePeriodSeconds: &none}))
	if got := peers(); len(got) != 2 || got[0].Gone || !got[1].Gone {
		t.Errorf("after a pod is gone: %+v", got)
	}
	s.now = s.now.Add(3 * time.Minute)
	if got := peers(); len(got) != 1 || got[0].Pod != "canary" {
		t.Errorf("long after a pod is gone: %+v", got)
	}
}

// After a Service was scaled to zero, no cluster is polled. The first pod that comes says what became of the others.
func TestARegistrationLooksAtTheOthers(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for i, p := range s.pods {
		p.IP = fmt.Sprintf("10.0.0.%d", i+1)
	}
	stable, canary := s.token("stable", "stable", web.Audience), s.token("canary", "canary", web.Audience)
	if status, _ := s.register(stable, registration("10.0.0.1", 1)); status != http.StatusOK {
		t.Fatal(status)
	}
	s.pods[0].Deleting = s.now
	if status, plan := s.register(canary, registration("10.0.0.2", 2)); status != http.StatusOK || !plan.Peers[0].Leaving || plan.Peers[0].Gone {
		t.Errorf("%d %+v", status, plan.Peers)
	}
	if status, plan := s.leave(stable, registration("10.0.0.1", 1)); status != http.StatusOK || !plan.Peers[0].Left {
		t.Errorf("a pod that is terminating leaves: %d %+v", status, plan.Peers)
	}
	s.pods[0].Phase = corev1.PodSucceeded
	none := int64(0)
	must(t, s.kube.CoreV1().Pods(namespace).Delete(t.Context(), "stable", metav1.DeleteOptions{GracePeriodSeconds: &none}))
	if status, plan := s.register(canary, registration("10.0.0.2", 3)); status != http.StatusOK || !plan.Peers[0].Gone {
		t.Errorf("%d %+v", status, plan.Peers)
	}
}

// Members take over what a pod had that is gone, also while no plan can be made: because the split is not in effect, or
// because a pod does not answer.
func TestWhatBecameOfMembersIsKnownWithoutAPlan(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	cache := s.living()
	for i, name := range []string{"stable", "canary"} {
		if status, _ := s.register(s.token(name, name, web.Audience), registration(fmt.Sprintf("10.0.0.%d", i+1), i+1)); status != http.StatusOK {
			t.Fatal(status)
		}
	}
	s.place(20)
	before := s.cached(20)
	none := int64(0)
	must(t, s.kube.CoreV1().Pods(namespace).Delete(t.Context(), "stable", metav1.DeleteOptions{GracePeriodSeconds: &none}))
	s.pods[1].Deleting = s.now
	cache.cached = s.pods[1:]
	s.shares = nil
	s.plan(s.placer)
	stored, err := s.ours.ShardPlacements(namespace).Get(t.Context(), before.Name, metav1.GetOptions{})
	must(t, err)
	got := stored.Status
	if len(got.Peers) != 2 || !got.Peers[0].Gone || !got.Peers[1].Leaving || got.Version <= before.Status.Version ||
		len(got.EntityTypes) != 1 || len(got.Members) != 2 {
		t.Errorf("%+v", got)
	}
	must(t, s.placer.Look(t.Context(), cart, "uid-cart"))
	again, err := s.ours.ShardPlacements(namespace).Get(t.Context(), before.Name, metav1.GetOptions{})
	must(t, err)
	if again.ResourceVersion != stored.ResourceVersion {
		t.Error("it was stored again, without a change")
	}
	must(t, s.placer.Look(t.Context(), cart, "uid-of-one-without-a-plan"))
}
