// SPDX-License-Identifier: Apache-2.0

package receiver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	"knative.dev/pkg/system"
	"knative.dev/serving/pkg/apis/serving"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	"knative.dev/serving/pkg/client/clientset/versioned"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/reconciler/authserver"
	"github.com/knative-cdevents/knative-cdevents/reconciler/awake"
	"github.com/knative-cdevents/knative-cdevents/reconciler/doorbell"
	"github.com/knative-cdevents/knative-cdevents/reconciler/oneshot"
	"github.com/knative-cdevents/knative-cdevents/reconciler/oneshot/receiver"
	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
	"github.com/knative-cdevents/knative-cdevents/test/sink"
)

const (
	ours     = "knative-cdevents"
	shop     = "shop"
	audience = "core"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// takes waits for events, and then a moment for others that must not come.
func takes(t *testing.T, to *sink.Sink, what string, want ...string) {
	t.Helper()
	for until := time.Now().Add(time.Minute); len(to.Got()) < len(want) && time.Now().Before(until); {
		time.Sleep(20 * time.Millisecond)
	}
	time.Sleep(500 * time.Millisecond)
	if got := to.Take(); !slices.Equal(got, want) {
		t.Fatalf("%s: received %q, want %q", what, got, want)
	}
}

// world is a real API server, a core, and a doorbell that rings it.
type world struct {
	*controlplane.ControlPlane
	t       *testing.T
	kube    kubernetes.Interface
	serving versioned.Interface
	sink    *sink.Sink
	address string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	cp, ctx := controlplane.Start(t), t.Context()
	must(t, cp.InstallServing(ctx))
	w := &world{ControlPlane: cp, t: t, sink: &sink.Sink{}}
	var err error
	w.kube, err = kubernetes.NewForConfig(cp.Config())
	must(t, err)
	w.serving, err = versioned.NewForConfig(cp.Config())
	must(t, err)
	for _, ns := range []string{ours, shop} {
		_, err := w.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{})
		must(t, err)
	}
	// The programs have the rights that the installation gives them.
	must(t, cp.Create(ctx, "config/200-serviceaccount.yaml", "config/200-clusterrole.yaml", "config/200-role.yaml", "config/201-bindings.yaml",
		"config/optional/serverless/200-roles.yaml", "config/optional/serverless/500-doorbell.yaml"))
	_, err = w.kube.CoreV1().ServiceAccounts(ours).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "stranger"}}, metav1.CreateOptions{})
	must(t, err)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	must(t, err)
	w.address = listener.Addr().String()
	must(t, listener.Close())
	return w
}

func (w *world) token(account string, audiences ...string) string {
	w.t.Helper()
	answer, err := w.kube.CoreV1().ServiceAccounts(ours).CreateToken(w.t.Context(), account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: audiences},
	}, metav1.CreateOptions{})
	must(w.t, err)
	return answer.Status.Token
}

func (w *world) file(name, content string) string {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), name)
	must(w.t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// run runs something until the test ends, or the returned function is called.
func (w *world) run(f func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); f(ctx) }()
	stop = func() { cancel(); <-ended }
	w.t.Cleanup(stop)
	return stop
}

// core starts a core, with no rights but its own.
func (w *world) core() (stop func()) {
	w.t.Helper()
	config := w.As("system:serviceaccount:"+ours+":core", "system:serviceaccounts")
	options, err := oneshot.Connect(w.t.Context(), config, ours, sink.Uncounted{})
	must(w.t, err)
	options.Transport = w.sink
	if waker, ok := options.Measuring.(*awake.Waker); ok {
		waker.Deployment.Refresh = refresh
	}
	kube, err := kubernetes.NewForConfig(config)
	must(w.t, err)
	h := (&receiver.Handler{
		Core: oneshot.New(options), Logger: zaptest.NewLogger(w.t).Sugar(),
		Guard: receiver.NewSenders(kube, kube, audience, types.NamespacedName{Namespace: ours, Name: "doorbell"}),
	}).Init()
	return w.run(func(ctx context.Context) {
		serving, end := context.WithCancel(context.WithoutCancel(ctx))
		defer end()
		ended := make(chan error, 1)
		go func() { ended <- authserver.Serve(serving, w.address, "", h) }()
		select {
		case <-ctx.Done():
		case err := <-ended:
			w.t.Errorf("the core does not serve: %v", err)
			return
		}
		if err := h.Close(serving); err != nil {
			w.t.Error(err)
		}
		end()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	})
}

// doorbell starts a doorbell, with no rights but its own.
func (w *world) doorbell() (stop func()) {
	w.t.Helper()
	c := doorbell.Defaults
	c.API = doorbell.Access{
		URL: w.Config().Host, CAFile: w.file("ca.crt", string(w.Config().CAData)), TokenFile: w.file("api", w.token("doorbell")),
	}
	c.Core = doorbell.Access{URL: "http://" + w.address, TokenFile: w.file("core", w.token("doorbell", audience))}
	c.Namespace = ours
	d, err := doorbell.New(c, slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})))
	must(w.t, err)
	return w.run(d.Run)
}

// create makes a Service with its Route, as Serving does.
func (w *world) create(name string) *servingv1.Service {
	w.t.Helper()
	svc := &servingv1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: name}}
	svc.Spec.Template.Spec.Containers = []corev1.Container{{Image: "registry/app"}}
	svc, err := w.serving.ServingV1().Services(shop).Create(w.t.Context(), svc, metav1.CreateOptions{})
	must(w.t, err)
	_, err = w.serving.ServingV1().Routes(shop).Create(w.t.Context(), &servingv1.Route{ObjectMeta: metav1.ObjectMeta{
		Namespace: shop, Name: name, OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(svc, servingv1.SchemeGroupVersion.WithKind("Service")),
		},
	}}, metav1.CreateOptions{})
	must(w.t, err)
	return svc
}

var ready = duckv1.Conditions{{Type: apis.ConditionReady, Status: corev1.ConditionTrue}}

// revision makes a Revision that is ready.
func (w *world) revision(svc *servingv1.Service, n int) string {
	w.t.Helper()
	ctx, revisions := w.t.Context(), w.serving.ServingV1().Revisions(shop)
	rev := &servingv1.Revision{ObjectMeta: metav1.ObjectMeta{
		Namespace: shop, Name: fmt.Sprintf("%s-%05d", svc.Name, n), Labels: map[string]string{
			serving.ServiceLabelKey: svc.Name, serving.ServiceUIDLabelKey: string(svc.UID),
			serving.ConfigurationGenerationLabelKey: fmt.Sprint(n),
		},
	}}
	rev.Spec.Containers = []corev1.Container{{Name: "app", Image: fmt.Sprintf("registry/app:%d", n)}}
	rev, err := revisions.Create(ctx, rev, metav1.CreateOptions{})
	must(w.t, err)
	rev.Status.Conditions = ready
	rev.Status.ContainerStatuses = []servingv1.ContainerStatus{{Name: "app", ImageDigest: fmt.Sprintf("registry/app@sha256:%064d", n)}}
	_, err = revisions.UpdateStatus(ctx, rev, metav1.UpdateOptions{})
	must(w.t, err)
	return rev.Name
}

// route divides the traffic among Revisions.
func (w *world) route(svc *servingv1.Service, split map[string]int64) {
	w.t.Helper()
	ctx, latest := w.t.Context(), false
	r, err := w.serving.ServingV1().Routes(shop).Get(ctx, svc.Name, metav1.GetOptions{})
	must(w.t, err)
	r.Status.ObservedGeneration, r.Status.URL, r.Status.Conditions = r.Generation, apis.HTTP(svc.Name+".example.com"), ready
	r.Status.Traffic = nil
	for name, percent := range split {
		r.Status.Traffic = append(r.Status.Traffic, servingv1.TrafficTarget{RevisionName: name, Percent: &percent, LatestRevision: &latest})
	}
	_, err = w.serving.ServingV1().Routes(shop).UpdateStatus(ctx, r, metav1.UpdateOptions{})
	must(w.t, err)
	svc, err = w.serving.ServingV1().Services(shop).Get(ctx, svc.Name, metav1.GetOptions{})
	must(w.t, err)
	svc.Status.ObservedGeneration, svc.Status.Conditions = svc.Generation, ready
	_, err = w.serving.ServingV1().Services(shop).UpdateStatus(ctx, svc, metav1.UpdateOptions{})
	must(w.t, err)
}

func (w *world) remove(name string) {
	w.t.Helper()
	must(w.t, w.serving.ServingV1().Services(shop).Delete(w.t.Context(), name, metav1.DeleteOptions{}))
}

// post rings by hand, with a body that says something else.
func (w *world) post(token string, attributes map[string]string, body string) (int, string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, "http://"+w.address, strings.NewReader(body))
	must(w.t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	for name, value := range attributes {
		r.Header.Set("Ce-"+name, value)
	}
	response, err := http.DefaultClient.Do(r)
	must(w.t, err)
	defer response.Body.Close() //nolint:errcheck // everything is read
	text, err := io.ReadAll(response.Body)
	must(w.t, err)
	return response.StatusCode, string(text)
}

// source makes a source that is sent everything of a namespace, and returns what reads and writes our objects.
func (w *world) source() *client.Clientset {
	w.t.Helper()
	c, err := client.New(w.Config())
	must(w.t, err)
	all := &v1alpha1.CDEventSource{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "all"}}
	all.Spec.Sink.URI = apis.HTTP("sink.example")
	_, err = c.CDEventSources(shop).Create(w.t.Context(), all, metav1.CreateOptions{})
	must(w.t, err)
	return c
}

// sourceReady waits until the doorbell has had the core resolve the source.
func (w *world) sourceReady(c *client.Clientset) {
	w.t.Helper()
	for range 600 {
		s, err := c.CDEventSources(shop).Get(w.t.Context(), "all", metav1.GetOptions{})
		must(w.t, err)
		if s.Status.SinkURI != nil {
			time.Sleep(1100 * time.Millisecond) // whole seconds tell what is older than the baseline
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.t.Fatal("nobody has resolved the source")
}

// The doorbell rings the core while Services live.
func TestDoorbellRingsCore(t *testing.T) {
	t.Setenv(system.NamespaceEnvKey, ours)
	w, ctx := newWorld(t), t.Context()
	stop := w.core()
	w.doorbell()
	c := w.source()
	w.sourceReady(c)

	cart := w.create("cart")
	takes(t, w.sink, "a new Service", "created")
	first := w.revision(cart, 1)
	w.route(cart, map[string]int64{first: 100})
	takes(t, w.sink, "it is ready", "ready", "deployed", "published")
	second := w.revision(cart, 2)
	takes(t, w.sink, "its second Revision", "ready")
	w.route(cart, map[string]int64{first: 80, second: 20})
	takes(t, w.sink, "a canary", "shifted")
	w.route(cart, map[string]int64{second: 100})
	takes(t, w.sink, "it has all traffic", "upgraded")

	w.hostile(cart)

	stop()
	third := w.revision(cart, 3)
	w.route(cart, map[string]int64{third: 100})
	w.create("till")
	time.Sleep(2 * time.Second) // for some rings that nobody answers
	takes(t, w.sink, "the core is down")
	stop = w.core()
	for until := time.Now().Add(time.Minute); len(w.sink.Got()) < 3 && time.Now().Before(until); {
		time.Sleep(20 * time.Millisecond)
	}
	got := w.sink.Got()
	slices.Sort(got) // that of two Services
	if want := []string{"created", "ready", "upgraded"}; !slices.Equal(got, want) {
		t.Fatalf("the core is up again: received %q, want %q", got, want)
	}
	takes(t, w.sink, "the core is up again", w.sink.Got()...)

	stop()
	w.remove("cart")
	w.core()
	takes(t, w.sink, "a deletion while the core is down", "removed")
	entries, err := c.CDEventSubjects(ours).List(ctx, metav1.ListOptions{})
	must(t, err)
	if len(entries.Items) != 2 {
		t.Errorf("%d entries in the ledger, want one for each Service", len(entries.Items))
	}
}

// hostile rings as somebody who is not allowed to, and with lies. Neither changes anything.
func (w *world) hostile(cart *servingv1.Service) {
	t := w.t
	t.Helper()
	about := func(key string) map[string]string {
		namespace, name, _ := strings.Cut(key, "/")
		return map[string]string{
			"specversion": "1.0", "id": "1", "source": "https://api", "type": "dev.knative.apiserver.resource.delete",
			"apiversion": "serving.knative.dev/v1", "kind": "Service", "namespace": namespace, "name": name,
		}
	}
	const lie = `{"apiVersion":"serving.knative.dev/v1","kind":"Service","metadata":{"namespace":"shop","name":"lie","uid":"1"},` +
		`"status":{"conditions":[{"type":"Ready","status":"False"}]}}`
	for name, c := range map[string]struct {
		token  string
		status int
		says   string
	}{
		"no token":                   {"", 401, "token"},
		"a forged token":             {w.token("doorbell", audience) + "x", 401, "not valid"},
		"a token for the API server": {w.token("doorbell"), 401, "audience core"},
		"somebody else's":            {w.token("stranger", audience), 403, "stranger is no sender"},
	} {
		if status, text := w.post(c.token, about("shop/cart"), lie); status != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%s: %d %s, want %d", name, status, text, c.status)
		}
	}
	token := w.token("doorbell", audience)
	for _, key := range []string{"shop/cart", "shop/lie", "elsewhere/cart"} {
		if status, text := w.post(token, about(key), lie); status != http.StatusNoContent {
			t.Errorf("a lie about %s: %d %s", key, status, text)
		}
	}
	secret := about("kube-system/secret")
	secret["apiversion"], secret["kind"] = "v1", "Secret"
	if status, text := w.post(token, secret, lie); status != http.StatusUnprocessableEntity {
		t.Errorf("a Secret: %d %s", status, text)
	}
	takes(t, w.sink, "lies")
	if _, err := w.serving.ServingV1().Services(shop).Get(t.Context(), cart.Name, metav1.GetOptions{}); err != nil {
		t.Error(errors.Join(errors.New("the cart is to be as it was"), err))
	}
}
