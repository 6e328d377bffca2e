// SPDX-License-Identifier: Apache-2.0

package doorbell

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
)

// system is the controller's namespace.
const system = "knative-cdevents"

// world is a real API server, and a user with the rights of a doorbell.
type world struct {
	*controlplane.ControlPlane
	t       *testing.T
	kube    kubernetes.Interface
	dynamic dynamic.Interface
	// ca and token are files for a doorbell.
	ca, token string
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// rights are all that a doorbell needs.
var rights = map[string]rbacv1.PolicyRule{
	"services,routes,revisions,domainmappings":   {APIGroups: []string{"serving.knative.dev"}, Verbs: []string{"list", "watch"}},
	"cdeventsources,cdeventsubjects,canarygates": {APIGroups: []string{"knative-cdevents.dev"}, Verbs: []string{"list", "watch"}},
	"customruns": {APIGroups: []string{"tekton.dev"}, Verbs: []string{"list", "watch"}},
	"namespaces": {APIGroups: []string{""}, Verbs: []string{"list", "watch"}},
	"leases":     {APIGroups: []string{"coordination.k8s.io"}, Verbs: []string{"create", "get", "patch"}},
}

func newWorld(t *testing.T) *world {
	t.Helper()
	cp := controlplane.Start(t)
	w := &world{
		ControlPlane: cp, t: t, kube: must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(cp.Config())),
		dynamic: must[*dynamic.DynamicClient](t)(dynamic.NewForConfig(cp.Config())),
		ca:      filepath.Join(t.TempDir(), "ca.crt"), token: filepath.Join(t.TempDir(), "token"),
	}
	ctx := t.Context()
	w.namespace(system)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "doorbell"}}
	for resources, rule := range rights {
		rule.Resources = strings.Split(resources, ",")
		role.Rules = append(role.Rules, rule)
	}
	must[*rbacv1.ClusterRole](t)(w.kube.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}))
	must[*corev1.ServiceAccount](t)(w.kube.CoreV1().ServiceAccounts(system).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "doorbell"}}, metav1.CreateOptions{}))
	must[*rbacv1.ClusterRoleBinding](t)(w.kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "doorbell"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "doorbell"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: system, Name: "doorbell"}},
	}, metav1.CreateOptions{}))
	token := must[*authenticationv1.TokenRequest](t)(w.kube.CoreV1().ServiceAccounts(system).CreateToken(ctx, "doorbell", &authenticationv1.TokenRequest{}, metav1.CreateOptions{}))
	for file, content := range map[string][]byte{w.ca: cp.Config().CAData, w.token: []byte(token.Status.Token)} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w *world) namespace(name string) {
	w.t.Helper()
	must[*corev1.Namespace](w.t)(w.kube.CoreV1().Namespaces().Create(w.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))
}

func (w *world) of(kind *Kind, namespace string) dynamic.ResourceInterface {
	gv, _ := schema.ParseGroupVersion(kind.APIVersion)
	return w.dynamic.Resource(gv.WithResource(kind.Resource)).Namespace(namespace)
}

// bodies are what the API server wants an object of a kind to have.
var bodies = map[*Kind]string{
	Services:  `{"spec":{"template":{"spec":{"containers":[{"image":"example.com/app"}]}}}}`,
	Routes:    `{"spec":{"traffic":[{"percent":100,"latestRevision":true,"configurationName":"app"}]}}`,
	Revisions: `{"spec":{"containers":[{"image":"example.com/app"}]}}`, DomainMappings: `{"spec":{"ref":{"kind":"Service","name":"cart","apiVersion":"serving.knative.dev/v1"}}}`,
	Gates: `{"spec":{"service":"cart"}}`, CustomRuns: `{"spec":{"customRef":{"apiVersion":"knative-cdevents.dev/v1alpha1","kind":"CanaryGate","name":"cart"}}}`,
	Sources:  `{"spec":{"sink":{"uri":"http://example.com"}}}`,
	Subjects: `{"spec":{"apiVersion":"serving.knative.dev/v1","kind":"Service","namespace":"shop","name":"cart","uid":"1"},"status":{"pending":0}}`,
}

// add creates an object.
func (w *world) add(kind *Kind, namespace, name string, meta ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	w.t.Helper()
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(bodies[kind]), &o.Object); err != nil {
		w.t.Fatal(err)
	}
	o.SetAPIVersion(kind.APIVersion)
	o.SetKind(kind.Kind)
	o.SetName(name)
	o.SetNamespace(namespace)
	for _, f := range meta {
		f(o)
	}
	return must[*unstructured.Unstructured](w.t)(w.of(kind, namespace).Create(w.t.Context(), o, metav1.CreateOptions{}))
}

func labelled(key, value string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{key: value}) }
}

func ofService(name string) func(*unstructured.Unstructured) { return labelled(serviceLabel, name) }

func ownedBy(name string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		yes := true
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: Services.APIVersion, Kind: Services.Kind, Name: name, UID: "1", Controller: &yes}})
	}
}

// annotate changes an object; an empty value removes the annotation.
func (w *world) annotate(kind *Kind, namespace, name, key, value string) {
	w.t.Helper()
	var v any = value
	if value == "" {
		v = nil
	}
	patch := must[[]byte](w.t)(json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: v}}}))
	must[*unstructured.Unstructured](w.t)(w.of(kind, namespace).Patch(w.t.Context(), name, "application/merge-patch+json", patch, metav1.PatchOptions{}))
}

func (w *world) remove(kind *Kind, namespace, name string) {
	w.t.Helper()
	if err := w.of(kind, namespace).Delete(w.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// between is a proxy between a doorbell and the API server, which checks and disturbs what goes through.
type between struct {
	*httptest.Server
	// ca is a file with the certificate of the proxy, if it has one.
	ca       string
	mu       sync.Mutex
	requests []string
	// through asks the API server.
	through http.HandlerFunc
	// disturb may answer instead of the API server.
	disturb func(w http.ResponseWriter, r *http.Request) bool
}

func (w *world) between(t *testing.T) *between {
	t.Helper()
	b := w.proxy(t)
	b.Start()
	return b
}

// secured is a proxy that speaks HTTP/2, as an API server does.
func (w *world) secured(t *testing.T) *between {
	t.Helper()
	b := w.proxy(t)
	b.EnableHTTP2, b.ca = true, filepath.Join(t.TempDir(), "ca.crt")
	b.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	b.StartTLS()
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: b.Certificate().Raw})
	if err := os.WriteFile(b.ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return b
}

func (w *world) proxy(t *testing.T) *between {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(w.Config().CAData)
	proxy := httputil.NewSingleHostReverseProxy(must[*url.URL](t)(url.Parse(w.Config().Host)))
	proxy.FlushInterval = -1
	proxy.Transport = &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}}
	proxy.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	b := &between{through: proxy.ServeHTTP}
	b.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata") {
			t.Errorf("%s %s accepts %q, which is more than metadata", r.Method, r.URL, r.Header.Get("Accept"))
		}
		verb := r.Method
		if r.URL.Query().Has("watch") {
			verb = "WATCH"
		}
		b.mu.Lock()
		b.requests = append(b.requests, verb+" "+r.URL.RequestURI())
		disturb := b.disturb
		b.mu.Unlock()
		if disturb == nil || !disturb(rw, r) {
			proxy.ServeHTTP(rw, r)
		}
	}))
	t.Cleanup(func() { b.CloseClientConnections(); b.Close() })
	return b
}

// count returns how many requests contain all the texts.
func (b *between) count(texts ...string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.requests {
		all := true
		for _, text := range texts {
			all = all && strings.Contains(r, text)
		}
		if all {
			n++
		}
	}
	return n
}

func (b *between) setDisturb(f func(w http.ResponseWriter, r *http.Request) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.disturb = f
}

// coreServer is a core that notes what it is rung for.
type coreServer struct {
	*httptest.Server
	mu     sync.Mutex
	rings  map[string]int // type and key
	order  []string
	answer func(key string) int
}

func newCoreServer(t *testing.T) *coreServer {
	t.Helper()
	c := &coreServer{rings: map[string]int{}, answer: func(string) int { return http.StatusAccepted }}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := "sweep"
		if kind := r.Header.Get("Ce-Kind"); kind != "" {
			key = kind + " " + strings.TrimPrefix(r.Header.Get("Ce-Namespace")+"/"+r.Header.Get("Ce-Name"), "/")
		}
		_, change, _ := strings.Cut(r.Header.Get("Ce-Type"), "ref.")
		c.mu.Lock()
		answer := c.answer
		c.mu.Unlock()
		code := answer(key)
		c.mu.Lock()
		if code/100 == 2 {
			c.rings[key]++
			c.order = append(c.order, strings.TrimSpace(change+" "+key))
		}
		c.mu.Unlock()
		w.WriteHeader(code)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *coreServer) setAnswer(f func(key string) int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = f
}

// got returns how often a key was rung and answered.
func (c *coreServer) got(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rings[key]
}

// last returns the last ring of a key with its change.
func (c *coreServer) last(key string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.order) - 1; i >= 0; i-- {
		if strings.HasSuffix(c.order[i], key) {
			return c.order[i]
		}
	}
	return ""
}

// sweptAfter reports whether a sweep was rung after a key.
func (c *coreServer) sweptAfter(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	rung := slices.IndexFunc(c.order, func(s string) bool { return strings.HasSuffix(s, key) })
	return rung >= 0 && slices.Contains(c.order[rung:], "sweep")
}

func (c *coreServer) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rings, c.order = map[string]int{}, nil
}

func (c *coreServer) all() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprint(c.order)
}

// running is a doorbell that runs.
type running struct {
	*Doorbell
	end   context.CancelFunc
	ended chan struct{}
}

// start starts a doorbell, which stops at the end of the test at the latest.
func (w *world) start(t *testing.T, api *between, core *coreServer, lease string, change ...func(*Doorbell)) *running {
	t.Helper()
	c := Defaults
	c.API = Access{URL: api.URL, CAFile: api.ca, TokenFile: w.token}
	c.Core.URL = core.URL
	c.Namespace, c.Lease = system, lease
	c.AbsentFor, c.StoreEvery = 300*time.Millisecond, 10*time.Millisecond
	d := must[*Doorbell](t)(New(c, slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))))
	for _, f := range change {
		f(d)
	}
	ctx, end := context.WithCancel(t.Context())
	r := &running{Doorbell: d, end: end, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		d.Run(ctx)
	}()
	t.Cleanup(r.stop)
	return r
}

func (r *running) stop() {
	r.end()
	<-r.ended
}

// watchesAll reports whether all kinds are watched.
func (r *running) watchesAll() bool {
	for _, w := range r.watchers {
		if !w.watching.Load() {
			return false
		}
	}
	return true
}

// quiet reports whether everything is answered, and stored as such.
func (r *running) quiet() bool {
	if !r.watchesAll() || !r.ringer.Answered(r.ringer.Mark()) {
		return false
	}
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	for resource, version := range r.book.noted {
		if newer(version, r.book.stored[resource]) {
			return false
		}
	}
	return len(r.book.noted) == len(r.watchers)
}

// unquiet says why it is not quiet.
func (r *running) unquiet() string {
	var why []string
	for _, w := range r.watchers {
		if !w.watching.Load() {
			why = append(why, fmt.Sprintf("%s are not watched, after %d lists and %d restarts", w.Resource, w.lists.Load(), w.restarts.Load()))
		}
	}
	r.ringer.mu.Lock()
	for key, k := range r.ringer.keys {
		why = append(why, fmt.Sprintf("%v has failed %d times, is rung: %v, and is due in %v", key, k.attempts, k.underway, time.Until(k.due)))
	}
	r.ringer.mu.Unlock()
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	return strings.Join(append(why, fmt.Sprintf("noted is %v, stored %v", r.book.noted, r.book.stored)), "; ")
}

// eventually waits for something that takes some time.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for until := time.Now().Add(90 * time.Second); !f(); {
		if time.Now().After(until) {
			t.Fatalf("waited 90 s until %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// never waits a moment for something that must not happen.
func never(t *testing.T, what string, f func() bool) {
	t.Helper()
	time.Sleep(700 * time.Millisecond)
	if f() {
		t.Error(what)
	}
}
