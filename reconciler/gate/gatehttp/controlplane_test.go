// SPDX-License-Identifier: Apache-2.0

package gatehttp_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate/gatehttp"
	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
)

const namespace = "default"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// cached are the gates in the cache of an informer.
type cached struct{ cache.SharedIndexInformer }

func (c cached) Synced() bool { return c.HasSynced() }

func (c cached) Cached(key types.NamespacedName) (*v1alpha1.CanaryGate, error) {
	return client.NewGateLister(c.GetIndexer()).Namespaced(key.Namespace).Get(key.Name)
}

// effective is the split of all Services.
type effective map[string]int64

func (e effective) Effective(types.NamespacedName) *gaterun.Service {
	return &gaterun.Service{
		Route:     lifecycle.Route{Effective: true, Traffic: lifecycle.SplitOf(e)},
		Revisions: map[string]*lifecycle.Revision{"cart-00001": {Name: "cart-00001"}, "cart-00002": {Name: "cart-00002", UID: "c", Generation: 2}},
	}
}

// failing is a logger for a test that expects no warning.
type failing struct{ t *testing.T }

func (f failing) Warnw(message string, args ...any) { f.t.Error(message, args) }

// asker is a client with a ServiceAccount.
type asker struct {
	*testing.T
	kube kubernetes.Interface
	at   string
}

func (a asker) token(account string, audiences ...string) string {
	a.Helper()
	answer, err := a.kube.CoreV1().ServiceAccounts(namespace).CreateToken(a.Context(), account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: audiences},
	}, metav1.CreateOptions{})
	must(a.T, err)
	return answer.Status.Token
}

func (a asker) want(status int, says string, who *url.Userinfo, bearer, method, gate string) {
	a.Helper()
	at, err := url.Parse(a.at)
	must(a.T, err)
	at.User, at.Path = who, "/v1/gates/"+namespace+"/"+gate
	r, err := http.NewRequestWithContext(a.Context(), method, at.String(), strings.NewReader(`{"name":"cart","namespace":"default","phase":"Progressing","checksum":"1"}`))
	must(a.T, err)
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	response, err := http.DefaultClient.Do(r)
	must(a.T, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	must(a.T, err)
	if response.StatusCode != status || !strings.Contains(string(body), says) {
		a.Errorf("%s %s: %d %s, want %d and %q", method, gate, response.StatusCode, body, status, says)
	}
}

// TestAgainstARealAPIServer uses real tokens, real RBAC and a gate from a cache.
func TestAgainstARealAPIServer(t *testing.T) {
	cp := controlplane.Start(t)
	ctx := t.Context()
	kube, err := kubernetes.NewForConfig(cp.Config())
	must(t, err)
	ours, err := client.New(cp.Config())
	must(t, err)
	for _, name := range []string{"flagger", "stranger"} {
		_, err := kube.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		must(t, err)
	}
	_, err = kube.RbacV1().Roles(namespace).Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "reads-cart"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"canarygates"}, ResourceNames: []string{"cart"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{})
	must(t, err)
	_, err = kube.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reads-cart"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reads-cart"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: "flagger"}},
	}, metav1.CreateOptions{})
	must(t, err)

	gates := ours.CanaryGates(namespace)
	typed := metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.GateKind.Kind}
	gate, err := gates.Create(ctx, &v1alpha1.CanaryGate{
		TypeMeta: typed, ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cart"}, Spec: v1alpha1.CanaryGateSpec{Service: "cart", Watch: true},
	}, metav1.CreateOptions{})
	must(t, err)
	split := map[string]int64{"cart-00001": 90, "cart-00002": 10}
	gate.Status.Run = &v1alpha1.GateRun{
		ID: "r1", Service: v1alpha1.GateObject{Name: "cart"}, Canary: v1alpha1.GateObject{Name: "cart-00002", UID: "c"}, Split: gaterun.Shares(lifecycle.SplitOf(split)),
		StartTime: metav1.Now(), Deadline: metav1.Now(), Verdict: verdict.Fail,
	}
	_, err = gates.UpdateStatus(ctx, gate, metav1.UpdateOptions{})
	must(t, err)

	informer := client.NewGateInformer(ours, metav1.NamespaceAll, 0, nil)
	ready, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ready.Done(), informer.HasSynced) {
		t.Fatal("the cache did not fill")
	}
	server := httptest.NewServer((&gatehttp.Handler{
		Gates: cached{informer}, Services: effective(split), Guard: gatehttp.NewAccess(kube, kube), Logger: failing{t},
	}).Init())
	defer server.Close()
	a := asker{t, kube, server.URL}

	flagger := a.token("flagger", gatehttp.Audience)
	userinfo := url.UserPassword("flagger", flagger)
	a.want(200, `"verdict":"Fail"`, nil, flagger, http.MethodGet, "cart")
	a.want(409, `"verdict":"Fail"`, userinfo, "", http.MethodPost, "cart")
	a.want(200, `"verdict":"Fail"`, userinfo, "", http.MethodPost, "cart/rollback")
	// A token with both audiences is valid.
	a.want(200, "", nil, a.token("flagger", "other", gatehttp.Audience), http.MethodGet, "cart")
	// A client with access to one gate learns nothing about another, not even whether it exists.
	a.want(403, "may not get canarygates", nil, flagger, http.MethodGet, "till")
	a.want(403, "system:serviceaccount:default:stranger may not", nil, a.token("stranger", gatehttp.Audience), http.MethodGet, "cart")
	// A token for the API server must not be accepted here.
	a.want(401, "--audience=knative-cdevents", nil, a.token("flagger"), http.MethodGet, "cart")
	a.want(401, "--audience=knative-cdevents", url.UserPassword("flagger", a.token("flagger", "other")), "", http.MethodPost, "cart")
	a.want(401, "a token of a ServiceAccount is required", nil, "", http.MethodGet, "cart")
	a.want(401, "not valid", nil, "nonsense", http.MethodGet, "cart")
}
