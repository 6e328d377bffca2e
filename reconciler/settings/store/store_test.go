// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/reconciler/settings"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/system"
	_ "knative.dev/pkg/system/testing" // names the namespace
)

const uid = "6f1e2c1a-8f0e-4a55-9d3c-1f1f1c6f7a10"

func cluster() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: uid}}
}

func configMap(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: system.Namespace(), Name: settings.Name}, Data: data}
}

func TestLastValidSettingsStayInEffect(t *testing.T) {
	t.Parallel()
	watcher := &configmap.ManualWatcher{Namespace: system.Namespace()}
	kube := fake.NewClientset(cluster(), configMap(map[string]string{"environment-id": "one"}))
	changes := 0
	s, err := newStore(t.Context(), kube, watcher, func() { changes++ })
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Current().Environment.ID; got != "one" {
		t.Errorf("at the start: %q", got)
	}
	for _, step := range []struct {
		data map[string]string
		want string
	}{
		{map[string]string{"environment-id": "two"}, "two"},
		{map[string]string{"environment-id": "three", "cluster-uri": "wrong"}, "two"},
		{map[string]string{"environment-id": "four"}, "four"},
		{nil, settings.DefaultEnvironment},
	} {
		watcher.OnChange(configMap(step.data))
		if got := s.Current().Environment.ID; got != step.want {
			t.Errorf("after %v: %q, want %q", step.data, got, step.want)
		}
	}
	if changes != 3 {
		t.Errorf("%d calls of onChange", changes)
	}
	for _, a := range kube.Actions() {
		if a.GetVerb() != "get" {
			t.Errorf("%s of %s", a.GetVerb(), a.GetResource().Resource)
		}
	}
}

// After a downgrade, the ConfigMap may have keys of the later release. Nobody may write others: that is for the webhook.
func TestUnknownKeysAreIgnoredOnceInEffect(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.ErrorLevel)
	ctx := logging.WithLogger(t.Context(), zap.New(core).Sugar())
	of := func(more ...string) *corev1.ConfigMap {
		c := configMap(map[string]string{"environment-id": "one"})
		for _, key := range more {
			c.Data[key] = "1"
		}
		return c
	}
	watcher := &configmap.ManualWatcher{Namespace: system.Namespace()}
	kube := fake.NewClientset(cluster(), of("of-tomorrow"))
	s, err := newStore(ctx, kube, watcher, func() {})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		keys []string
		logs int
	}{
		{[]string{"of-tomorrow"}, 1}, {[]string{"of-tomorrow", "of-next-week"}, 2}, {nil, 2}, {[]string{"of-tomorrow"}, 3},
	} {
		c := of(step.keys...)
		if watcher.OnChange(c); s.Current().Environment.ID != "one" {
			t.Fatalf("%q: the rest is not in effect: %+v", step.keys, s.Current())
		}
		if all := logs.All(); len(all) != step.logs || !strings.Contains(all[len(all)-1].Message, `"of-tomorrow"`) {
			t.Fatalf("%q: %+v, want %d", step.keys, all, step.logs)
		}
		if _, err := settings.Check(c); (err == nil) != (len(step.keys) == 0) {
			t.Errorf("%q: the webhook says %v", step.keys, err)
		}
	}
	if _, err := s.Again(ctx, kube); err != nil || logs.Len() != 3 {
		t.Errorf("%v, %+v", err, logs.All())
	}
}

func TestConfigMapMayBeAbsent(t *testing.T) {
	t.Parallel()
	s, err := newStore(t.Context(), fake.NewClientset(cluster()), &configmap.ManualWatcher{Namespace: system.Namespace()},
		func() {})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(s.Current(), settings.Default(uid)) {
		t.Errorf("%+v", s.Current())
	}
}

func TestNewStoreFails(t *testing.T) {
	t.Parallel()
	refusing := fake.NewClientset(cluster())
	refusing.PrependReactor("get", "configmaps", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("forbidden")
	})
	for name, kube := range map[string]*fake.Clientset{
		"with a wrong value":            fake.NewClientset(cluster(), configMap(map[string]string{"cluster-uri": "wrong"})),
		"without a cluster's UID":       fake.NewClientset(),
		"when the ConfigMap is refused": refusing,
	} {
		if _, err := newStore(t.Context(), kube, &configmap.ManualWatcher{Namespace: system.Namespace()},
			func() {}); err == nil {
			t.Errorf("NewStore succeeded %s", name)
		}
	}
}

// Whoever asks gets the settings as they are now. Earlier answers stay as they were.
func TestSettingsAreReadAgain(t *testing.T) {
	t.Parallel()
	kube := fake.NewClientset(cluster(), configMap(map[string]string{"environment-id": "one"}))
	first, err := Load(t.Context(), kube)
	if err != nil {
		t.Fatal(err)
	}
	changed := configMap(map[string]string{"environment-id": "two"})
	if _, err := kube.CoreV1().ConfigMaps(changed.Namespace).Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	second, err := first.Again(t.Context(), kube)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := first.Environment().ID, second.Environment().ID; a != "one" || b != "two" || first.ClusterURI() != second.ClusterURI() {
		t.Errorf("first %q, then %q", a, b)
	}
	changed.Data["cluster-uri"] = "wrong"
	if _, err := kube.CoreV1().ConfigMaps(changed.Namespace).Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Again(t.Context(), kube); err == nil {
		t.Error("an invalid value was accepted")
	}
}
