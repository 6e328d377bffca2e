// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	canary "github.com/knative-cdevents/knative-cdevents/canary/cluster"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/cluster"
	"github.com/knative-cdevents/knative-cdevents/reconciler/cluster/web"
	"github.com/knative-cdevents/knative-cdevents/reconciler/pods"
	"github.com/knative-cdevents/knative-cdevents/reconciler/service"
	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
)

const namespace = "default"

var cart = types.NamespacedName{Namespace: namespace, Name: "cart"}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// known is the informer of pods, reduced to one Service.
type known []*pods.Pod

func (k known) Of(service types.NamespacedName) []*pods.Pod {
	if service != cart {
		return nil
	}
	return k
}

func (k known) Synced() bool { return k != nil }

func (known) Owned(_ context.Context, p *pods.Pod) error {
	if p.Name == "impostor" {
		return &pods.RefusedError{Pod: p.Key(), Why: "is controlled by nothing"}
	}
	return nil
}

// scene is a real API server, a Placer that writes to it, and the HTTP service that reads from it.
type scene struct {
	*testing.T
	kube   kubernetes.Interface
	ours   *client.Clientset
	placer *cluster.Placer
	at     string
	layout canary.Layout
	shares lifecycle.Split
	now    time.Time
	pods   known
}

// Split implements cluster.Traffic.
func (s *scene) Split(types.NamespacedName) lifecycle.Split { return s.shares }

type noLoads struct{}

func (noLoads) Loads(types.NamespacedName) map[attribution.ShardKey]float64 { return nil }

// fakeServices are Services that are not known yet, and that this process leads for.
type fakeServices struct{}

func (fakeServices) IsLeaderFor(types.NamespacedName) bool               { return true }
func (fakeServices) Active() bool                                        { return false }
func (fakeServices) Declared() map[types.NamespacedName]service.Declared { return nil }

// failing is a logger for a test that expects no warning.
type failing struct{ t *testing.T }

func (f failing) Warnw(message string, args ...any) { f.t.Error(message, args) }

func newScene(t *testing.T) *scene {
	cp := controlplane.Start(t)
	kube, err := kubernetes.NewForConfig(cp.Config())
	must(t, err)
	ours, err := client.New(cp.Config())
	must(t, err)
	informer := client.NewPlacementInformer(ours, namespace, 0, web.Indexers)
	plans, err := web.NewPlans(informer)
	must(t, err)
	go informer.RunWithContext(t.Context())
	ready, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if !cache.WaitForCacheSync(ready.Done(), informer.HasSynced) {
		t.Fatal("the cache did not fill")
	}
	s := &scene{T: t, kube: kube, ours: ours, now: time.UnixMilli(1_795_400_000_000)}
	var of known
	for i, name := range []string{"stable", "canary", "impostor", "plain", "leaving"} {
		p := s.pod(name)
		p.Generation, p.Revision = int64(i+1), fmt.Sprintf("cart-%05d", i+1)
		p.Annotations = map[string]string{
			v1alpha1.AnnotationRuntime: "pekko", v1alpha1.AnnotationEntityTypes: "Cart",
			v1alpha1.AnnotationPlacement: "enforce",
		}
		if name == "plain" {
			p.Annotations, p.ServiceUID = nil, "uid-of-one-without-a-plan"
		}
		if name == "leaving" {
			p.Deleting = s.now
		}
		of = append(of, p)
	}
	s.pods = of
	s.placer = cluster.NewPlacer(cluster.PlacerOptions{
		Client: ours.ShardPlacements(namespace), Plans: plans, Metrics: cluster.NewMetrics(fakeServices{}),
		Now:     func() time.Time { return s.now },
		Traffic: s, Loads: noLoads{}, Services: fakeServices{},
	})
	mux := http.NewServeMux()
	mux.Handle(web.Path, &web.Handler{
		Plans: plans, Guard: web.NewAccess(kube, kube, of),
		Logger: failing{t}, Stopping: t.Context().Done(),
	})
	mux.Handle(web.MemberPath, &web.Registration{
		Guard: web.NewAccess(kube, kube, of), Logger: failing{t},
		Registrar: &cluster.Registrar{
			Client: ours.ShardPlacements(namespace), Living: &living{scene: s, cached: of}, Now: func() time.Time { return s.now },
		},
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.at = server.URL
	s.layout = canary.Layout{
		UID: "uid-cart", Declared: v1alpha1.Stateful{
			Runtime: v1alpha1.RuntimePekko, EntityTypes: []string{"Cart"},
			Shards: 10, Placement: v1alpha1.PlacementEnforce,
		},
		Members: []canary.LayoutMember{
			{Address: "pekko://cart@10.0.0.1:7355", Pod: "stable", Revision: "cart-00001", Status: "Up"},
			{Address: "pekko://cart@10.0.0.2:7355", Pod: "canary", Revision: "cart-00002", Status: "Up"},
		},
	}
	return s
}

// pod creates a pod, and returns it as the informer would.
func (s *scene) pod(name string) *pods.Pod {
	s.Helper()
	_, err := s.kube.CoreV1().ServiceAccounts(namespace).Create(s.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(s.T, err)
	p, err := s.kube.CoreV1().Pods(namespace).Create(s.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			ServiceAccountName: name,
			Containers:         []corev1.Container{{Name: "user-container", Image: "none"}},
		},
	}, metav1.CreateOptions{})
	must(s.T, err)
	return &pods.Pod{Namespace: namespace, Name: name, UID: p.UID, Service: "cart", ServiceUID: "uid-cart"}
}

// token requests a token as kubelet does. Without a pod, it is a ServiceAccount's.
func (s *scene) token(account, pod, audience string) string {
	s.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}}}
	if pod != "" {
		p, err := s.kube.CoreV1().Pods(namespace).Get(s.Context(), pod, metav1.GetOptions{})
		must(s.T, err)
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{
			Kind: "Pod", APIVersion: "v1", Name: pod,
			UID: p.UID,
		}
	}
	answer, err := s.kube.CoreV1().ServiceAccounts(namespace).CreateToken(s.Context(), account, request,
		metav1.CreateOptions{})
	must(s.T, err)
	return answer.Status.Token
}

// get sends a request, with headers in pairs, and returns the status, the ETag and the body.
func (s *scene) get(token, path string, headers ...string) (status int, etag, body string) {
	s.Helper()
	response := s.open(token, path, headers...)
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	must(s.T, err)
	return response.StatusCode, response.Header.Get("ETag"), string(raw)
}

func (s *scene) open(token, path string, headers ...string) *http.Response {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), http.MethodGet,
		s.at+"/v1/namespaces/"+namespace+"/services/"+path, nil)
	must(s.T, err)
	r.Header.Set("Authorization", "Bearer "+token)
	for header := range slices.Chunk(headers, 2) {
		r.Header.Set(header[0], header[1])
	}
	response, err := http.DefaultClient.Do(r)
	must(s.T, err)
	return response
}

// plan lets a Placer plan the cluster once.
func (s *scene) plan(p *cluster.Placer) *canary.Placement {
	s.Helper()
	out, err := p.Place(s.Context(), cart, s.layout)
	must(s.T, err)
	return out
}

// place makes a plan with a percentage for the canary, and waits until it is served.
func (s *scene) place(percent int64) {
	s.Helper()
	s.shares = []lifecycle.Share{
		{Revision: "cart-00001", Percent: 100 - percent},
		{Revision: "cart-00002", Percent: percent},
	}
	s.plan(s.placer)
}

// cached waits until the plan with a percentage for the canary is in the cache.
func (s *scene) cached(percent int) *v1alpha1.ShardPlacement {
	s.Helper()
	for range 100 {
		plan := s.placer.Plans.Get("uid-cart")
		// Members may have registered before there was a plan.
		if plan != nil && len(plan.Status.Revisions) == 2 && plan.Status.Revisions[1].Percent == int32(percent) { //nolint:gosec // 100 at most
			return plan
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.Fatalf("no plan with %d %% for the canary", percent)
	return nil
}

func (s *scene) want(status int, says, token, path string) {
	s.Helper()
	if got, _, body := s.get(token, path); got != status || !strings.Contains(body, says) {
		s.Errorf("%s: %d %s, want %d and %q", path, got, body, status, says)
	}
}

func TestOnlyThePodsOfAServiceReadItsPlan(t *testing.T) {
	s := newScene(t)
	canary := s.token("canary", "canary", web.Audience)
	s.want(404, `"reason":"NoPlanYet"`, canary, "cart/placement")
	s.want(404, `"reason":"NotEnabled"`, s.token("plain", "plain", web.Audience), "cart/placement")
	s.place(20)
	for range 100 {
		if status, _, _ := s.get(canary, "cart/placement"); status == http.StatusOK {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.want(200, `"quotas":[8,2]`, canary, "cart/placement")
	s.want(403, "is not a pod of Service", canary, "till/placement")
	s.want(200, `"quotas":[8,2]`, s.token("leaving", "leaving", web.Audience), "cart/placement") // it hands its shards over
	s.want(403, "controlled by nothing", s.token("impostor", "impostor", web.Audience), "cart/placement")
	s.want(401, "not bound to a pod", s.token("canary", "", web.Audience), "cart/placement")
	s.want(401, "not created for audience", s.token("canary", "canary", "knative-cdevents"), "cart/placement")
	s.want(401, "a token is required", "", "cart/placement")
	s.want(400, "the only parameter is wait", canary, "cart/placement?wait=1h")
	s.want(400, "the only parameter is wait", canary, "cart/placement?since=1")
}

// The newest Revision decides: pods of older ones must not wait for a plan that will never be made.
func TestANewRevisionWithoutPlacementEndsThePlanForAll(t *testing.T) {
	s := newScene(t)
	stable := s.token("stable", "stable", web.Audience)
	s.want(404, `"reason":"NoPlanYet"`, stable, "cart/placement")
	delete(s.pods[2].Annotations, v1alpha1.AnnotationPlacement) // a pod that only claims to be of the Service
	delete(s.pods[1].Annotations, v1alpha1.AnnotationPlacement)
	s.pods[4].Phase = corev1.PodSucceeded
	s.want(404, `"reason":"NotEnabled"`, stable, "cart/placement")
	s.want(404, `cart-00002, the newest one with pods, asks for no plan`, stable, "cart/placement")
}

func TestAPodWaitsForAChange(t *testing.T) {
	s := newScene(t)
	s.place(20)
	token := s.token("stable", "stable", web.Audience)
	var first string
	for range 100 {
		if _, first, _ = s.get(token, "cart/placement"); first != "" {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if first != `"1795400000000"` {
		t.Fatalf("ETag %s, want the time of the plan", first)
	}
	// Nothing changes, so nothing is written.
	s.place(20)
	s.now = s.now.Add(-time.Hour) // a restored backup, or a clock that was set back
	if status, etag, _ := s.get(token, "cart/placement?wait=1s", "If-None-Match",
		first); status != http.StatusNotModified || etag != first {
		t.Errorf("%d with ETag %s, want 304", status, etag)
	}
	changed := make(chan string, 1)
	go func() {
		_, etag, _ := s.get(token, "cart/placement?wait=30s", "If-None-Match", first)
		changed <- etag
	}()
	time.Sleep(200 * time.Millisecond)
	s.place(50)
	select {
	case etag := <-changed:
		if etag != `"1795400000001"` {
			t.Errorf("ETag %s, want a version that is one higher", etag)
		}
	case <-time.After(10 * time.Second):
		t.Error("the client that waits does not hear of the change")
	}
}

func TestAStreamSendsEachPlan(t *testing.T) {
	s := newScene(t)
	s.place(20)
	s.cached(20)
	response := s.open(s.token("stable", "stable", web.Audience), "cart/placement", "Accept", "text/event-stream")
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewScanner(response.Body)
	next := func() (quotas string) {
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var plan v1alpha1.ShardPlacementStatus
				must(t, json.Unmarshal([]byte(data), &plan))
				return fmt.Sprint(plan.EntityTypes[0].Quotas)
			}
		}
		return ""
	}
	for _, c := range []struct {
		percent int
		quotas  string
	}{{20, "[8 2]"}, {50, "[5 5]"}, {0, "[10 0]"}} {
		s.place(int64(c.percent))
		if got := next(); got != c.quotas {
			t.Errorf("at %d %%: quotas %s, want %s", c.percent, got, c.quotas)
		}
	}
}
