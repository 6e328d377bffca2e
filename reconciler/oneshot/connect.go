// SPDX-License-Identifier: Apache-2.0

package oneshot

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"knative.dev/eventing/pkg/eventingtls"
	"knative.dev/serving/pkg/client/clientset/versioned"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials/clientset"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/hosts"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/transports"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/trust"
	"github.com/knative-cdevents/knative-cdevents/reconciler/apiserver"
	"github.com/knative-cdevents/knative-cdevents/reconciler/awake"
	"github.com/knative-cdevents/knative-cdevents/reconciler/namespaces"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	"github.com/knative-cdevents/knative-cdevents/reconciler/settings/store"
	"github.com/knative-cdevents/knative-cdevents/reconciler/source"
)

// connection is a core's view of a cluster.
type connection struct {
	kube    kubernetes.Interface
	sources *source.Once
	// settings are those of the newest request. Their cluster never changes; everything else is read again.
	settings  atomic.Pointer[store.Store]
	endpoints apiserver.Endpoints
	trust     *trusted
}

// Connect returns the options of a Core that works in a cluster, in the controller's namespace.
func Connect(ctx context.Context, config *rest.Config, system string, metrics Metrics) (Options, error) {
	var err error
	failed := func(what string, e error) {
		if e != nil && err == nil {
			err = fmt.Errorf("making a client for %s: %w", what, e)
		}
	}
	kube, e := kubernetes.NewForConfig(config)
	failed("Kubernetes", e)
	ours, e := client.New(config)
	failed("knative-cdevents.dev", e)
	serving, e := versioned.NewForConfig(config)
	failed("Knative Serving", e)
	objects, e := dynamic.NewForConfig(config)
	failed("sinks", e)
	names, e := metadata.NewForConfig(config)
	failed("metadata", e)
	if err != nil {
		return Options{}, err
	}
	c := &connection{kube: kube, trust: &trusted{Trust: trust.New()}}
	first, err := store.Load(ctx, kube)
	if err != nil {
		return Options{}, err
	}
	c.settings.Store(first)
	rule, err := awake.NewRule(config, system, func() []schema.GroupKind { return c.settings.Load().EnvironmentKinds() })
	if err != nil {
		return Options{}, err
	}
	keeper := credentials.NewKeeper(clientset.API{Interface: kube}, transports.Schemes, apiserver.Audiences(config)...)
	c.sources = source.NewOnce(ctx, source.Options{Client: ours, Credentials: keeper, Schemes: transports.Schemes}, system,
		kube.Discovery(), objects)
	return Options{
		Serving: serving, Subjects: ours.CDEventSubjects(system),
		Baselines: ledger.Baselines{Client: ours.CDEventBaselines(system)},
		Sources: func(ctx context.Context, ns string, o metav1.ListOptions) (*v1alpha1.CDEventSourceList, error) {
			return ours.CDEventSources(ns).List(ctx, o)
		},
		Settings: func(ctx context.Context) (Settings, error) { return c.current(ctx) },
		Namespace: func(ctx context.Context, name string) (map[string]string, bool, error) {
			return namespaces.Read(ctx, names, name)
		},
		Installed: func(ctx context.Context, definitions ...string) (bool, error) {
			return installed(ctx, names, definitions)
		},
		Resolve: c.resolve,
		Prepare: func(ctx context.Context) error { return c.prepare(ctx, system) },
		Transport: transports.New(transport.Access{
			Addresses: transport.Addresses{
				Refused: apiserver.Prefixes(config), RefusedPorts: c.endpoints.List,
				Hosts: func() hosts.List { return c.settings.Load().SinkHosts() },
			},
			Credentials: keeper, Trust: c.trust.Trust,
		}),
		Metrics: metrics, SystemNamespace: system,
		Measuring: &awake.Waker{
			Deployment: &awake.Deployment{Client: kube.AppsV1().Deployments(system), Now: time.Now},
			Rule:       rule,
		},
	}, nil
}

// current reads the settings.
func (c *connection) current(ctx context.Context) (*store.Store, error) {
	now, err := c.settings.Load().Again(ctx, c.kube)
	if err != nil {
		return nil, err
	}
	c.settings.Store(now)
	return now, nil
}

func (c *connection) resolve(ctx context.Context, s *v1alpha1.CDEventSource, neighbours []*v1alpha1.CDEventSource,
	deliveries source.Deliveries,
) error {
	now, err := c.current(ctx)
	if err != nil {
		return err
	}
	return c.sources.Update(ctx, s, neighbours, now, deliveries)
}

// prepare reads where the API server listens, and which certificate authorities are trusted.
func (c *connection) prepare(ctx context.Context, system string) error {
	if err := c.endpoints.Read(ctx, c.kube); err != nil {
		return fmt.Errorf("reading where the API server listens, to which no source may send: %w", err)
	}
	list, err := c.kube.CoreV1().ConfigMaps(system).List(ctx, metav1.ListOptions{
		LabelSelector: eventingtls.TrustBundleLabelSelector,
	})
	if err != nil {
		return fmt.Errorf("listing the trust bundles in namespace %s: %w", system, err)
	}
	c.trust.replace(ctx, list.Items)
	return nil
}

func installed(ctx context.Context, client metadata.Interface, names []string) (bool, error) {
	for _, name := range names {
		_, err := client.Resource(observer.Definitions).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("reading CustomResourceDefinition %s: %w", name, err)
		}
	}
	return true, nil
}
