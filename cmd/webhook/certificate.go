// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	corelisters "k8s.io/client-go/listers/core/v1"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"
	secretinformer "knative.dev/pkg/injection/clients/namespacedkube/informers/core/v1/secret"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/system"
	"knative.dev/pkg/webhook/certificates"
	certresources "knative.dev/pkg/webhook/certificates/resources"
)

// certificate renews the webhook's certificate, as every Knative webhook does, and reports until when it is valid.
func certificate(ctx context.Context, cmw configmap.Watcher) *controller.Impl {
	lister := secretinformer.Get(ctx).Lister().Secrets(system.Namespace())
	if err := watchExpiry(func() time.Time { return expiry(lister) }); err != nil {
		logging.FromContext(ctx).Fatalw("The webhook cannot start: making its metrics", "error", err)
	}
	return certificates.NewController(ctx, cmw)
}

// watchExpiry registers the gauge of the certificate's end.
func watchExpiry(ends func() time.Time) error {
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
			o.Observe(at)
			return nil
		}),
	)
	if err != nil {
		return fmt.Errorf("making the gauge of the certificate's end: %w", err)
	}
	return nil
}

// expiry returns when the certificate that the webhook serves expires; the zero time if there is none that can be read.
func expiry(lister corelisters.SecretNamespaceLister) time.Time {
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
