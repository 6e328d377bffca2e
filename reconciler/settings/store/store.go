// SPDX-License-Identifier: Apache-2.0

// Package store holds the settings in effect, as the API server has them.
package store

import (
	"context"
	"fmt"
	"reflect"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	kubeclient "knative.dev/pkg/client/injection/kube/client"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/system"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/hosts"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/settings"
)

// Store holds the settings in effect.
type Store struct {
	defaults settings.Settings
	current  atomic.Pointer[settings.Settings]
	logger   configmap.Logger
	ignored  *settings.Ignored
	onChange func()
}

// New reads the settings before it returns, then follows their changes through
// the watcher and calls onChange after each. It fails on an invalid value.
func New(ctx context.Context, cmw configmap.Watcher, onChange func()) (*Store, error) {
	return newStore(ctx, kubeclient.Get(ctx), cmw, onChange)
}

// Load reads the settings, and does not follow their changes. It fails on an invalid value.
func Load(ctx context.Context, kube kubernetes.Interface) (*Store, error) {
	cluster, err := kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's UID (that of namespace %s): %w", metav1.NamespaceSystem, err)
	}
	s := &Store{defaults: settings.Default(cluster.UID), logger: logging.FromContext(ctx), ignored: &settings.Ignored{}}
	return s.Again(ctx, kube)
}

// Again reads the settings once more. Those that were read before stay as they are.
func (s *Store) Again(ctx context.Context, kube kubernetes.Interface) (*Store, error) {
	absent := absent()
	found, err := kube.CoreV1().ConfigMaps(absent.Namespace).Get(ctx, settings.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		found = absent
	case err != nil:
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", absent.Namespace, settings.Name, err)
	}
	first, err := s.read(found)
	if err != nil {
		return nil, err
	}
	out := &Store{defaults: s.defaults, logger: s.logger, ignored: s.ignored}
	out.current.Store(&first)
	return out, nil
}

func absent() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: system.Namespace(), Name: settings.Name}}
}

func newStore(ctx context.Context, kube kubernetes.Interface, cmw configmap.Watcher, onChange func()) (*Store, error) {
	s, err := Load(ctx, kube)
	if err != nil {
		return nil, err
	}
	s.onChange = onChange
	// Without a default, the watcher does not start before the ConfigMap exists.
	if d, ok := cmw.(configmap.DefaultingWatcher); ok {
		d.WatchWithDefault(*absent(), s.changed)
	} else {
		cmw.Watch(settings.Name, s.changed)
	}
	return s, nil
}

// Current returns the settings in effect.
func (s *Store) Current() settings.Settings { return *s.current.Load() }

// Rules are those that decide about transitions.
func (s *Store) Rules() lifecycle.Rules { return s.Current().Rules() }

// EnvironmentKinds are the kinds whose objects are environments.
func (s *Store) EnvironmentKinds() []schema.GroupKind { return s.Current().EnvironmentKinds }

// Environment is that of events where neither their namespace nor the source names one.
func (s *Store) Environment() v1alpha1.Environment { return s.Current().Environment }

// SinkHosts are the hosts that sources may send to; any host if the list is empty.
func (s *Store) SinkHosts() hosts.List { return s.Current().SinkHosts }

// ClusterURI is the source of the cluster's events.
func (s *Store) ClusterURI() string { return s.Current().ClusterURI }

func (s *Store) read(c *corev1.ConfigMap) (settings.Settings, error) {
	s.ignored.Say(s.logger, c, settings.Unknown(c))
	return settings.FromConfigMap(s.defaults, c)
}

func (s *Store) changed(c *corev1.ConfigMap) {
	next, err := s.read(c)
	if err != nil {
		s.logger.Errorf("The configuration is not valid, and the last valid one stays in effect: %v", err)
		return
	}
	if before := s.current.Swap(&next); !reflect.DeepEqual(*before, next) {
		s.logger.Infof("The configuration changed: %+v", next)
		s.onChange()
	}
}
