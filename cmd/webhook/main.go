// SPDX-License-Identifier: Apache-2.0

// The webhook rejects invalid CDEventSources, and invalid values in the controller's
// ConfigMaps. Gates need no webhook: their schema has all rules.
//
// It only wires. The rules are in reconciler/source, reconciler/settings and
// reconciler/settings/canary, so the controller applies the same ones.
// It has its own identity, because the controller must not have the write
// permissions that an admission webhook needs.
package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/injection"
	"knative.dev/pkg/injection/sharedmain"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/observability"
	"knative.dev/pkg/signals"
	"knative.dev/pkg/system"
	"knative.dev/pkg/webhook"
	"knative.dev/pkg/webhook/configmaps"
	"knative.dev/pkg/webhook/resourcesemantics"
	"knative.dev/pkg/webhook/resourcesemantics/validation"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/reconciler/certificate"
	"github.com/knative-cdevents/knative-cdevents/reconciler/settings"
	"github.com/knative-cdevents/knative-cdevents/reconciler/settings/canary"
	"github.com/knative-cdevents/knative-cdevents/reconciler/settings/elections"
	"github.com/knative-cdevents/knative-cdevents/reconciler/source"
)

const (
	// component names the process in logs, leases and metrics, and its Service.
	component = "webhook"
	// port is the port that config/500-webhook.yaml exposes.
	port = 8443
	// secret holds the webhook's self-signed certificate.
	secret = "webhook-certs" //nolint:gosec // a name

	// The names of the ValidatingWebhookConfigurations that are filled in here.
	resourcesWebhook = "validation.webhook.knative-cdevents.dev"
	configWebhook    = "config.webhook.knative-cdevents.dev"
)

func main() {
	ctx := webhook.WithOptions(signals.NewContext(), webhook.Options{
		ServiceName: component, Port: port, SecretName: secret,
	})
	sharedmain.MainWithConfig(ctx, component, injection.ParseAndGetRESTConfigOrDie(),
		certificate.New(component, secret), resources, config)
}

func resources(ctx context.Context, _ configmap.Watcher) *controller.Impl {
	client, err := metadata.NewForConfig(injection.GetConfig(ctx))
	if err != nil {
		logging.FromContext(ctx).Fatalw("The webhook cannot start: making a client for metadata", "error", err)
	}
	kinds := map[schema.GroupVersionKind]resourcesemantics.GenericCRD{
		v1alpha1.SourceKind: &admitted{
			system: system.Namespace(),
			full:   countSources(client),
			budget: source.NewBudget(system.Namespace()),
		},
	}
	// Unknown fields are left to the API server: it prunes or rejects them, as the
	// client asks.
	return validation.NewAdmissionController(ctx, resourcesWebhook, "/resources", kinds, nil, false)
}

func config(ctx context.Context, _ configmap.Watcher) *controller.Impl {
	return configmaps.NewAdmissionController(ctx, configWebhook, "/config", constructors)
}

// constructors parse each ConfigMap as its consumers do. Those of our own refuse unknown keys, too, which consumers
// ignore.
var constructors = configmap.Constructors{
	settings.Name:          settings.Check,
	canary.Name:            canary.Check,
	"config-logging":       logging.NewConfigFromConfigMap,
	elections.Name:         elections.Check,
	"config-observability": func(c *corev1.ConfigMap) (*observability.Config, error) { return observability.NewFromMap(c.Data) },
}
