// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/cluster"
	"github.com/asynkron/protoactor-go/cluster/clusterproviders/k8s"
	provider "github.com/asynkron/protoactor-go/cluster/clusterproviders/test"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestRestartedContainerDropsItsFormerLabels(t *testing.T) {
	t.Parallel()
	labels := map[string]string{
		"app": "cart-00001", k8s.LabelCluster: "cart", k8s.LabelMemberID: "old", k8s.LabelPort: "6331",
	}
	client := fake.NewSimpleClientset(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart-1", Labels: labels}})
	p := &pod{client: client, namespace: "shop", name: "cart-1"}
	for range 2 { // with and without labels
		if err := p.forget(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	got, err := client.CoreV1().Pods("shop").Get(t.Context(), "cart-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, is := got.Labels[k8s.LabelCluster]; is || got.Labels[k8s.LabelMemberID] != "" || got.Labels["app"] != "cart-00001" {
		t.Errorf("labels are %v", got.Labels)
	}
}

func TestInnerPort(t *testing.T) {
	t.Parallel()
	conf := testConfig("cart-00001", 0)
	counts := newCounts(conf)
	m := anyMember(t, conf, counts, provider.NewTestProvider(provider.NewInMemAgent()))
	m.saw([]*cluster.Member{{Host: "10.0.0.2", Port: 6331}, {Host: "10.0.0.1", Port: 6331}}, time.Now())
	crashed := false
	h := counts.handler(m, func() { crashed = true })
	for request, want := range map[string]string{
		"GET /members": `"members":["10.0.0.1:6331","10.0.0.2:6331"]`,
		"GET /metrics": "\nstateful_shards{entity_type=\"Cart\"} 0\n",
		"POST /crash":  "",
	} {
		method, path, _ := strings.Cut(request, " ")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: got %d %s", request, w.Code, w.Body)
		}
	}
	if !crashed {
		t.Error("POST /crash did not end the process")
	}
}

// Outside of a pod, the placement cannot know which plan is its own.
func TestPlacementNeedsItsPod(t *testing.T) {
	conf := testConfig("cart-00001", 0)
	conf.Placement = true
	t.Setenv("K_SERVICE", "")
	_, err := newMember(t.Context(), conf, newCounts(conf), provider.NewTestProvider(provider.NewInMemAgent()), "127.0.0.1", 0)
	if err == nil || !strings.Contains(err.Error(), "K_SERVICE") || !strings.Contains(err.Error(), "token") {
		t.Errorf("got %v", err)
	}
}

func TestExpelledMemberExits(t *testing.T) {
	t.Parallel()
	conf := testConfig("cart-00001", 0)
	m := anyMember(t, conf, newCounts(conf), provider.NewTestProvider(provider.NewInMemAgent()))
	self := &cluster.Member{Host: "10.0.0.1", Port: 6331}
	other := &cluster.Member{Host: "10.0.0.2", Port: 6331}
	m.cluster.ActorSystem.ProcessRegistry.Address = self.Address()
	begin := m.since
	at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
	expect := func(s int, want string) {
		t.Helper()
		err := m.expelled(at(s))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("after %d s: got %v, want %q", s, err, want)
		}
	}
	expect(59, "")
	expect(61, "for 1m1s")
	m.saw([]*cluster.Member{self, other}, at(62))
	expect(1000, "")
	m.saw([]*cluster.Member{other}, at(1001))
	m.saw([]*cluster.Member{other, other}, at(1010)) // a change that does not concern this member
	expect(1015, "")
	expect(1017, "not among the members for 16s: [10.0.0.2:6331")
	m.saw([]*cluster.Member{self}, at(1018))
	expect(1100, "")
}
