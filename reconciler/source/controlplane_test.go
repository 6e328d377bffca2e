// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/apis"
	"knative.dev/pkg/controller"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials/clientset"
	httptransport "github.com/knative-cdevents/knative-cdevents/emitter/transport/http"
	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
)

// TestInvalidSourceDoesNotAffectOthers: without a webhook, the API server admits sources
// that cannot be parsed. Each reports it in a condition, and the others work.
func TestInvalidSourceDoesNotAffectOthers(t *testing.T) {
	t.Parallel()
	cp := controlplane.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dyn, err := dynamic.NewForConfig(cp.Config())
	must(err)
	kube, err := kubernetes.NewForConfig(cp.Config())
	must(err)
	ours, err := client.New(cp.Config())
	must(err)
	_, err = kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{})
	must(err)
	create := func(kind, text string) {
		t.Helper()
		u := &unstructured.Unstructured{}
		must(json.Unmarshal([]byte(`{"apiVersion":"knative-cdevents.dev/v1alpha1","kind":"`+kind+`",`+text+`}`), &u.Object))
		u.SetNamespace("shop")
		_, err := dyn.Resource(v1alpha1.SchemeGroupVersion.WithResource(strings.ToLower(kind)+"s")).Namespace("shop").Create(ctx, u, metav1.CreateOptions{})
		must(err)
	}
	const good = `"sink":{"uri":"http://sink.example"}`
	wants := map[string]struct {
		condition apis.ConditionType
		reason    string
		says      string
	}{
		"good":       {},
		"misspelled": {v1alpha1.SourceConditionValid, "InvalidField", "spec.filters[0].not.Exact is not a field of a filter; use one of exact"},
		"filter":     {v1alpha1.SourceConditionValid, "InvalidField", "spec.filters[0].all[0].exact must be an object"},
		"uri":        {v1alpha1.SourceConditionSinkProvided, "InvalidField", "spec.sink.uri is not a valid URI: first path segment in URL cannot contain colon"},
		"letters":    {v1alpha1.SourceConditionDeadLetterSinkResolved, "InvalidField", "spec.delivery.deadLetterSink.uri is not a valid URI"},
	}
	create("CDEventSource", `"metadata":{"name":"good"},"spec":{`+good+`}`)
	create("CDEventSource", `"metadata":{"name":"filter"},"spec":{`+good+`,"filters":[{"all":[{"exact":5}]}]}`)
	create("CDEventSource", `"metadata":{"name":"misspelled"},"spec":{`+good+`,"filters":[{"not":{"cesql":"TRUE","Exact":{"type":"a"}}}]}`)
	create("CDEventSource", `"metadata":{"name":"uri"},"spec":{"sink":{"ref":{"apiVersion":"v1","kind":"Service","name":"a"},"uri":"1:2"}}`)
	create("CDEventSource", `"metadata":{"name":"letters"},"spec":{`+good+`,"delivery":{"deadLetterSink":{"ref":{"apiVersion":"v1","kind":"Service","name":"a"},"uri":"1:2"}}}`)
	create("CDEventSubject", `"metadata":{"name":"service-u"},"spec":{"apiVersion":"serving.knative.dev/v1","kind":"Service","name":"cart","uid":"u"},"status":{"pending":1,"oldestPending":"2026-05-04T12:00:00Z"}`)

	sources := client.NewSourceInformer(ours, metav1.NamespaceAll, 0, nil)
	subjects := client.NewSubjectInformer(ours, metav1.NamespaceAll, 0, nil)
	impl := newController(ctx, Options{
		Client: ours, Sources: sources, Credentials: credentials.NewKeeper(clientset.API{Interface: kube}, httptransport.Schemes), Schemes: httptransport.Schemes,
		Settings: &operator{},
	}, kube.Discovery(), dyn)
	for _, informer := range []cache.SharedIndexInformer{sources, subjects} {
		go informer.RunWithContext(ctx)
	}
	syncing, enough := context.WithTimeout(ctx, 20*time.Second)
	defer enough()
	if !cache.WaitForCacheSync(syncing.Done(), sources.HasSynced, subjects.HasSynced) {
		t.Fatalf("an informer has not synced: sources %v, subjects %v", sources.HasSynced(), subjects.HasSynced())
	}
	go func() { _ = controller.StartAll(ctx, impl) }()

	for name, want := range wants {
		var s *v1alpha1.CDEventSource
		eventually(t, name+" to be reconciled", func() bool {
			s, err = ours.CDEventSources("shop").Get(ctx, name, metav1.GetOptions{})
			must(err)
			return s.Status.ObservedGeneration == s.Generation
		})
		if want.condition == "" {
			if !s.Status.IsReady() {
				t.Errorf("%s: %+v", name, s.Status.Conditions)
			}
			continue
		}
		if c := s.Status.GetCondition(want.condition); !c.IsFalse() || c.Reason != want.reason || !contains(c.Message, want.says) || s.Status.IsReady() {
			t.Errorf("%s: %+v, want %+v", name, c, want)
		}
	}
	// An invalid field is not dropped when the status is written.
	u, err := dyn.Resource(v1alpha1.SourceResource).Namespace("shop").Get(ctx, "filter", metav1.GetOptions{})
	must(err)
	if filters, _, _ := unstructured.NestedSlice(u.Object, "spec", "filters"); len(filters) != 1 || !contains(string(encoded(t, filters)), `"exact":5`) {
		t.Errorf("the filters are %v now", filters)
	}
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
