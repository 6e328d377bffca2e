// SPDX-License-Identifier: Apache-2.0

// Package certificate keeps the certificate of an admission webhook valid, and reports until when it is: alerts tell of
// one that is not renewed before the API server refuses it.
package certificate

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	corelisters "k8s.io/client-go/listers/core/v1"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/injection"
	secretinformer "knative.dev/pkg/injection/clients/namespacedkube/informers/core/v1/secret"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/system"
	"knative.dev/pkg/webhook/certificates"
	certresources "knative.dev/pkg/webhook/certificates/resources"
)

// New returns the constructor of a controller that renews the certificate in a Secret, as every Knative webhook does,
// and reports until when it is valid. The component is the label webhook of its gauge.
func New(component, secret string) injection.ControllerConstructor {
	return func(ctx context.Context, cmw configmap.Watcher) *controller.Impl {
		lister := secretinformer.Get(ctx).Lister().Secrets(system.Namespace())
		if err := watch(component, func() time.Time { return expiry(lister, secret) }); err != nil {
			logging.FromContext(ctx).Fatalw("The webhook cannot start: making its metrics", "error", err)
		}
		return certificates.NewController(ctx, cmw)
	}
}

// watch registers the gauge of the certificate's end.
func watch(component string, ends func() time.Time) error {
	whose := metric.WithAttributes(attribute.String("webhook", component))
	_, err := otel.Meter("knative-cdevents.dev/webhook").Int64ObservableGauge(
		"cdevents_webhook_certificate_expiration_timestamp",
		metric.WithUnit("s"),
		metric.WithDescription(
			"When the webhook's certificate expires, in seconds since 1970; 0 if there is none that can be read. It is renewed a day before.",
		),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			var at int64
			if t := ends(); !t.IsZero() {
				at = t.Unix()
			}
			o.Observe(at, whose)
			return nil
		}),
	)
	if err != nil {
		return fmt.Errorf("making the gauge of the certificate's end: %w", err)
	}
	return nil
}

// expiry returns when the certificate that the webhook serves expires; the zero time if there is none that can be read.
func expiry(lister corelisters.SecretNamespaceLister, secret string) time.Time {
	s, err := lister.Get(secret)
	if err != nil {
		return time.Time{}
	}
	block, _ := pem.Decode(s.Data[certresources.ServerCert])
	if block == nil {
		return time.Time{}
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}
	}
	return cert.NotAfter
}
