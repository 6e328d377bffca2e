// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	metafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"knative.dev/serving/pkg/apis/serving"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

var yes = true

func controlledBy(apiVersion, kind, name, uid string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(uid), Controller: &yes}}
}

// podOf returns a pod like those that Serving creates.
func podOf(service, rev, name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "7",
		Labels: map[string]string{
			serving.ServiceLabelKey: service, serving.ServiceUIDLabelKey: "uid-" + service,
			serving.RevisionLabelKey: rev, serving.RevisionUID: "uid-" + rev,
			serving.ConfigurationLabelKey: service, serving.ConfigurationGenerationLabelKey: "2",
			"app": rev, ProtoActor + "member-id": "m1",
		},
		Annotations:     map[string]string{v1alpha1.AnnotationRuntime: "pekko", "other": "x"},
		OwnerReferences: controlledBy("apps/v1", "ReplicaSet", rev+"-deployment-1", "uid-"+rev+"-set"),
	}}
	p.Spec.Containers = []corev1.Container{{Name: "user-container", Image: "x"}}
	p.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, Reason: "Evicted", PodIP: "10.0.0.7",
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "user-container", ContainerID: "containerd://a", RestartCount: 2,
			LastTerminationState: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137},
			},
		}},
	}
	return p
}

func meta(apiVersion, kind, name string, labels map[string]string,
	owners []metav1.OwnerReference,
) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID("uid-" + strings.TrimSuffix(name, "-1")),
			Labels: labels, OwnerReferences: owners,
		},
	}
}

// chain returns the owners above the pods of a Revision.
func chain(service, rev string) []runtime.Object {
	set := meta("apps/v1", "ReplicaSet", rev+"-deployment-1", nil,
		controlledBy("apps/v1", "Deployment", rev+"-deployment", "uid-"+rev+"-deployment"))
	set.UID = types.UID("uid-" + rev + "-set")
	return []runtime.Object{
		set,
		meta("apps/v1", "Deployment", rev+"-deployment", nil,
			controlledBy("serving.knative.dev/v1", "Revision", rev, "uid-"+rev)),
		meta("serving.knative.dev/v1", "Revision", rev, map[string]string{
			serving.ServiceLabelKey: service, serving.ServiceUIDLabelKey: "uid-" + service,
			serving.ConfigurationGenerationLabelKey: "2",
		}, controlledBy("serving.knative.dev/v1", "Configuration", service, "uid-"+service+"-configuration")),
	}
}

// Whoever may create Revisions can give one the labels of another's Service, with pods of its own.
func TestARevisionIsOfTheServiceThatControlsIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(rev *metav1.PartialObjectMetadata)
		refused string
	}{
		"bare":            {func(r *metav1.PartialObjectMetadata) { r.OwnerReferences = nil }, "does not control"},
		"of another kind": {func(r *metav1.PartialObjectMetadata) { r.OwnerReferences[0].APIVersion = "example.com/v1" }, "does not control"},
		"not controlled": {
			func(r *metav1.PartialObjectMetadata) { r.OwnerReferences[0].Controller = nil },
			"does not control",
		},
		"of another Service": {
			func(r *metav1.PartialObjectMetadata) { r.OwnerReferences[0].Name = "bank" },
			"does not control",
		},
		"older than its pod is": {func(r *metav1.PartialObjectMetadata) { r.Labels[serving.ConfigurationGenerationLabelKey] = "1" }, "claims generation 2"},
	} {
		objects := chain("cart", "cart-00001")
		rev, ok := objects[2].(*metav1.PartialObjectMetadata)
		if !ok {
			t.Fatalf("%T", objects[2])
		}
		c.change(rev)
		err := newOwners(metadataClient(t, objects...)).check(t.Context(), projected(podOf("cart", "cart-00001", "a")))
		var refused *RefusedError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: %v, want %q", name, err, c.refused)
		}
	}
}

func metadataClient(t *testing.T, objects ...runtime.Object) *metafake.FakeMetadataClient {
	t.Helper()
	scheme := metafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return metafake.NewSimpleMetadataClient(scheme, objects...)
}

func TestProjectedPod(t *testing.T) {
	t.Parallel()
	obj, err := project(podOf("cart", "cart-00002", "a"))
	if err != nil {
		t.Fatal(err)
	}
	s, ok := obj.(*stored)
	if !ok {
		t.Fatalf("projected to %T", obj)
	}
	p := s.pod
	want := &Pod{
		Namespace: "shop", Name: "a", UID: "uid-a", Service: "cart", Revision: "cart-00002",
		ServiceUID: "uid-cart", RevisionUID: "uid-cart-00002", Generation: 2, IP: "10.0.0.7", Phase: corev1.PodRunning,
		Reason: "Evicted", Ready: true,
		Annotations: map[string]string{v1alpha1.AnnotationRuntime: "pekko"},
		Labels:      map[string]string{ProtoActor + "member-id": "m1"},
		Containers:  []Container{{Name: "user-container", ID: "containerd://a", Restarts: 2, Last: "OOMKilled"}},
		Owner:       Owner{"apps/v1", "ReplicaSet", "cart-00002-deployment-1", "uid-cart-00002-set"},
	}
	if !reflect.DeepEqual(p, want) || !p.Containers[0].OOMKilled() || p.Over() {
		t.Errorf("got %+v", p)
	}
	if again, err := project(obj); err != nil || again != obj {
		t.Error("a projected pod was projected again")
	}
	if s, declared, err := p.Declared(); !declared || err != nil || s.ManagementPort != 7626 {
		t.Errorf("declared %+v, %v, %v", s, declared, err)
	}
}

func TestSidecarOfAPod(t *testing.T) {
	t.Parallel()
	status := corev1.PodStatus{
		InitContainerStatuses: []corev1.ContainerStatus{
			{Name: "migrate", ContainerID: "migrate"}, {Name: v1alpha1.SidecarContainer, ContainerID: "sidecar"},
		},
		ContainerStatuses: []corev1.ContainerStatus{
			{Name: "user-container", ContainerID: "user"}, {Name: "queue-proxy", ContainerID: "queue"},
		},
	}
	for name, c := range map[string]struct {
		spec      corev1.PodSpec
		image, id string
	}{
		"none": {corev1.PodSpec{Containers: []corev1.Container{{Name: "queue-proxy", Image: "queue"}}}, "", ""},
		"a container": {corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "migrate", Image: "m"}, {Name: v1alpha1.SidecarContainer, Image: "s@sha256:1"}},
			Containers:     []corev1.Container{{Name: "queue-proxy", Image: "queue"}},
		}, "s@sha256:1", "sidecar"},
		"in queue-proxy": {corev1.PodSpec{Containers: []corev1.Container{
			{Name: "user-container", Image: "u", Env: []corev1.EnvVar{{Name: "STATEFUL_KEY"}}},
			{Name: "queue-proxy", Image: "q@sha256:2", Env: []corev1.EnvVar{{Name: "STATEFUL_KEY"}}},
		}}, "q@sha256:2", "queue"},
	} {
		if p := projected(&corev1.Pod{Spec: c.spec, Status: status}); p.Sidecar != c.image || p.SidecarID != c.id {
			t.Errorf("%s: image %q in container %q, want %q in %q", name, p.Sidecar, p.SidecarID, c.image, c.id)
		}
		if p := projected(&corev1.Pod{Spec: c.spec}); p.SidecarID != "" {
			t.Errorf("%s: a pod that has not started has container %q", name, p.SidecarID)
		}
	}
}

func TestOwned(t *testing.T) {
	t.Parallel()
	client := metadataClient(t, append(chain("cart", "cart-00001"), chain("other", "other-00001")...)...)
	for name, c := range map[string]struct {
		change  func(*corev1.Pod)
		refused string
	}{
		"its own Revision":             {func(*corev1.Pod) {}, ""},
		"no address yet":               {func(p *corev1.Pod) { p.Status.PodIP = "" }, ""},
		"the node's network":           {func(p *corev1.Pod) { p.Spec.HostNetwork = true }, "network of its node"},
		"loopback":                     {func(p *corev1.Pod) { p.Status.PodIP = "127.0.0.1" }, "127.0.0.1"},
		"the cloud's metadata address": {func(p *corev1.Pod) { p.Status.PodIP = "169.254.169.254" }, "169.254.169.254"},
		"no owner":                     {func(p *corev1.Pod) { p.OwnerReferences = nil }, "not controlled by a ReplicaSet"},
		"a ReplicaSet of another Revision": {func(p *corev1.Pod) {
			p.OwnerReferences = controlledBy("apps/v1", "ReplicaSet", "other-00001-deployment-1", "uid-other-00001-set")
		}, "belongs to other-00001"},
		"a ReplicaSet that does not exist": {func(p *corev1.Pod) {
			p.OwnerReferences = controlledBy("apps/v1", "ReplicaSet",
				"none", "u")
		}, "does not exist"},
		"a recreated ReplicaSet": {func(p *corev1.Pod) {
			p.OwnerReferences = controlledBy("apps/v1", "ReplicaSet", "cart-00001-deployment-1", "u2")
		}, "has another"},
		"another Service's label": {func(p *corev1.Pod) { p.Labels[serving.ServiceLabelKey] = "bank" }, "Service bank"},
		"another Revision": {
			func(p *corev1.Pod) { p.Labels[serving.RevisionUID] = "u3" },
			"Revision cart-00001 (UID u3)",
		},
	} {
		pod := podOf("cart", "cart-00001", "a")
		c.change(pod)
		err := newOwners(client).check(t.Context(), projected(pod))
		var refused *RefusedError
		switch {
		case c.refused == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.refused != "" && (!errors.As(err, &refused) || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Each ReplicaSet is requested once. A failed request is retried, and is no reason
// to refuse a pod.
func TestOwnersAreCached(t *testing.T) {
	t.Parallel()
	client := metadataClient(t, chain("cart", "cart-00001")...)
	asked, broken := 0, true
	client.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		asked++
		if broken {
			return true, nil, fmt.Errorf("no answer")
		}
		return false, nil, nil
	})
	o := newOwners(client)
	pod := projected(podOf("cart", "cart-00001", "a"))
	var refused *RefusedError
	if err := o.check(t.Context(), pod); err == nil || errors.As(err, &refused) {
		t.Errorf("after a failed request: %v", err)
	}
	broken = false
	for range 3 {
		if err := o.check(t.Context(), pod); err != nil {
			t.Error(err)
		}
	}
	if asked != 4 {
		t.Errorf("%d requests, want one after the failed ones", asked)
	}
}

func TestPodsByService(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	kube := kubefake.NewClientset(podOf("cart", "cart-00002", "b"), podOf("cart", "cart-00001", "a"),
		podOf("bank", "bank-00001", "c"))
	pods, err := New(kube, metadataClient(t, chain("cart", "cart-00001")...))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	notified := map[string]int{}
	err = pods.OnChange(func(key types.NamespacedName) {
		mu.Lock()
		defer mu.Unlock()
		notified[key.Name]++
	})
	if err != nil {
		t.Fatal(err)
	}
	go pods.Run(ctx)
	cart := types.NamespacedName{Namespace: "shop", Name: "cart"}
	eventually(t, "the cache is complete", pods.Synced)
	all := pods.Of(cart)
	if len(all) != 2 || all[0].Name != "a" || all[1].Name != "b" ||
		len(pods.Of(types.NamespacedName{Namespace: "x", Name: "cart"})) != 0 {
		t.Errorf("pods %v", all)
	}
	if got := pods.Services(); len(got) != 2 || got[0].Name != "bank" || got[1] != cart {
		t.Errorf("Services %v", got)
	}
	if err := pods.Owned(ctx, all[0]); err != nil {
		t.Error(err)
	}
	if got := pods.Dying(cart); len(got) != 0 {
		t.Errorf("pods that are being deleted: %v", got)
	}
	ending := podOf("cart", "cart-00002", "b")
	ending.ResourceVersion, ending.DeletionTimestamp = "7", &metav1.Time{Time: time.Now()}
	if _, err := kube.CoreV1().Pods("shop").Update(ctx, ending, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the cache shows that a pod is being deleted", func() bool {
		got := pods.Dying(cart)
		return len(got) == 1 && got[0].Name == "b"
	})
	moved := podOf("bank", "bank-00001", "a")
	moved.ResourceVersion = "8"
	if _, err := kube.CoreV1().Pods("shop").Update(ctx, moved, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both Services have been announced", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return notified["cart"] == 4 && notified["bank"] == 2 && len(pods.Of(cart)) == 1
	})
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if is() {
			return
		}
	}
	t.Fatalf("timed out after ten seconds: waiting until %s", what)
}
