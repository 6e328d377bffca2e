// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cminformer "knative.dev/pkg/configmap/informer"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/injection"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/system"
	"knative.dev/pkg/webhook"
	"knative.dev/pkg/webhook/certificates"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	servingclient "knative.dev/serving/pkg/client/clientset/versioned"
	"sigs.k8s.io/yaml"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/reconciler/sidecar"
	"github.com/knative-cdevents/knative-cdevents/test/revision"
)

const namespace = "knative-cdevents"

// world is an API server with the manifests of config/optional/sidecar.
type world struct {
	*testing.T
	kube    kubernetes.Interface
	serving servingclient.Interface
	pods    int
}

func (w *world) on(t *testing.T) *world {
	t.Helper()
	sub := *w
	sub.T, sub.pods = t, w.pods+100
	w.pods = sub.pods
	return &sub
}

var image = sidecar.Settings{Image: "registry.example.com/sidecar@sha256:1"}

func declaration() map[string]string {
	return map[string]string{v1alpha1.AnnotationRuntime: "sidecar", v1alpha1.AnnotationKey: "header:X-User"}
}

// pod is one that Serving made, without some labels.
func (w *world) pod(namespace string, annotations map[string]string, without ...string) *corev1.Pod {
	p := in(namespace, revision.Pod(w, annotations))
	p.Spec.ServiceAccountName = "default" // the admission of ServiceAccounts does not run here
	for _, label := range without {
		delete(p.Labels, label)
	}
	return p
}

// in returns a pod as it could be made in a namespace.
func in(namespace string, p *corev1.Pod) *corev1.Pod {
	p = p.DeepCopy()
	p.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Labels: p.Labels, Annotations: p.Annotations}
	// No kubelet runs, and tolerations are added by the API server.
	p.Spec.Tolerations = nil
	return p
}

func same(a, b *corev1.Pod) bool {
	return cmp.Equal(a.Spec, b.Spec) && cmp.Equal(a.Annotations, b.Annotations)
}

func (w *world) create(p *corev1.Pod) (*corev1.Pod, error) {
	w.pods++
	p = p.DeepCopy()
	p.Name = fmt.Sprintf("cart-%05d", w.pods)
	return w.kube.CoreV1().Pods(p.Namespace).Create(w.Context(), p, metav1.CreateOptions{})
}

func (w *world) service(namespace, name string, annotations map[string]string, port int32) (*servingv1.Service, error) {
	s := &servingv1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Spec.Template.Annotations = annotations
	s.Spec.Template.Spec.Containers = []corev1.Container{{Image: "cart", Ports: []corev1.ContainerPort{{ContainerPort: port}}}}
	return w.serving.ServingV1().Services(namespace).Create(w.Context(), s, metav1.CreateOptions{})
}

func (w *world) namespace(name string, labels map[string]string) {
	w.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if _, err := w.kube.CoreV1().Namespaces().Create(w.Context(), ns, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	// The controller manager, which would create the ServiceAccount of the pods, does not run here.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := w.kube.CoreV1().ServiceAccounts(name).Create(w.Context(), account, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
}

// install applies the manifests. The Service leads to this process.
func (w *world) install(as *rest.Config, port int32) {
	w.Helper()
	client, err := dynamic.NewForConfig(as)
	if err != nil {
		w.Fatal(err)
	}
	files, err := filepath.Glob("../../config/optional/sidecar/*.yaml")
	if err != nil || len(files) < 2 {
		w.Fatal(files, err)
	}
	for _, file := range slices.Concat([]string{"../../config/100-namespace.yaml"}, files) {
		content, err := os.ReadFile(file)
		if err != nil {
			w.Fatal(err)
		}
		documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
		for {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			u := &unstructured.Unstructured{}
			if err := errors.Join(err, yaml.Unmarshal(document, &u.Object)); err != nil {
				w.Fatal(err)
			}
			switch u.GetKind() {
			case "":
				continue
			case "Service":
				u.Object["spec"] = map[string]any{"type": "ExternalName", "externalName": "localhost"}
			case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
				hooks, _, _ := unstructured.NestedSlice(u.Object, "webhooks")
				for _, hook := range hooks {
					if err := unstructured.SetNestedField(hook.(map[string]any), int64(port), "clientConfig", "service", "port"); err != nil { //nolint:errcheck,forcetypeassert // of the manifest
						w.Fatal(err)
					}
				}
				u.Object["webhooks"] = hooks
			}
			resource, _ := meta.UnsafeGuessKindToResource(u.GroupVersionKind())
			if _, err := client.Resource(resource).Namespace(u.GetNamespace()).Create(w.Context(), u, metav1.CreateOptions{}); err != nil {
				w.Fatalf("%s: %v", file, err)
			}
		}
	}
}

// inject runs the injector as main does, but for leases, logs and metrics. It returns what ends it.
func inject(t *testing.T, as *rest.Config, port int32) func() {
	t.Helper()
	t.Setenv(system.NamespaceEnvKey, namespace)
	t.Setenv("SIDECAR_IMAGE", image.Image)
	t.Setenv("QUEUE_PROXY_IMAGE", "queue")
	ctx, cancel := context.WithCancel(logging.WithLogger(context.Background(), zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel)).Sugar()))
	ctx = webhook.WithOptions(ctx, webhook.Options{ServiceName: component, Port: int(port), SecretName: secret, GracePeriod: time.Millisecond})
	ctx = injection.WithConfig(ctx, as)
	ctx, informers := injection.Default.SetupInformers(ctx, as)
	client, err := kubernetes.NewForConfig(as)
	if err != nil {
		t.Fatal(err)
	}
	cmw := cminformer.NewInformedWatcher(client, namespace)
	all := []*controller.Impl{certificates.NewController(ctx, cmw)}
	for _, construct := range admission() {
		all = append(all, construct(ctx, cmw))
	}
	w, err := webhook.New(ctx, []any{all[1].Reconciler, all[2].Reconciler})
	if err != nil {
		t.Fatal(err)
	}
	if err := controller.StartInformers(ctx.Done(), informers...); err != nil {
		t.Fatal(err)
	}
	if err := cmw.Start(ctx.Done()); err != nil {
		t.Fatal(err)
	}
	w.InformersHaveSynced()
	done := make(chan error, 2)
	go func() { done <- w.Run(ctx.Done()) }()
	go func() { done <- controller.StartAll(ctx, all...) }()
	stop := sync.OnceFunc(func() {
		cancel()
		for range cap(done) {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
	t.Cleanup(stop)
	return stop
}

func (w *world) waitForInjector() {
	w.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		_, pod := w.create(w.pod("shop", declaration()))
		_, service := w.service("shop", "question", map[string]string{v1alpha1.AnnotationKey: "x"}, 8080)
		refused := service != nil && strings.Contains(service.Error(), "validation failed")
		if pod == nil && refused {
			return
		}
		if service == nil {
			_ = w.serving.ServingV1().Services("shop").Delete(w.Context(), "question", metav1.DeleteOptions{})
		}
		if time.Now().After(deadline) {
			w.Fatal(pod, service)
		}
	}
}

func freePort(t *testing.T) int32 {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return int32(l.Addr().(*net.TCPAddr).Port) //nolint:errcheck,forcetypeassert,gosec // a port of TCP
}
