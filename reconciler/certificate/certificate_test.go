// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/otel"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	certresources "knative.dev/pkg/webhook/certificates/resources"

	"github.com/knative-cdevents/knative-cdevents/dashboards"
)

// The certificate's end is exported under the name that the alerts read.
func TestCertificateExpiry(t *testing.T) {
	const ours, component, secret = "knative-cdevents", "webhook", "webhook-certs"
	secrets := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	lister := corelisters.NewSecretLister(secrets).Secrets(ours)
	registry := prometheus.NewRegistry()
	reader, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes))
	if err != nil {
		t.Fatal(err)
	}
	was := otel.GetMeterProvider()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	t.Cleanup(func() { otel.SetMeterProvider(was) })
	if err := watch(component, func() time.Time { return expiry(lister, secret) }); err != nil {
		t.Fatal(err)
	}
	ends := time.Now().Add(5 * time.Hour).Truncate(time.Second)
	_, cert, _, err := certresources.CreateCerts(t.Context(), component, ours, ends)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data map[string][]byte
		want float64
	}{
		"before the first certificate": {nil, 0},
		"no PEM":                       {map[string][]byte{certresources.ServerCert: []byte("nothing")}, 0},
		"no certificate":               {map[string][]byte{certresources.ServerCert: []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")}, 0},
		"valid for five hours":         {map[string][]byte{certresources.ServerCert: cert}, float64(ends.Unix())},
	} {
		if err := secrets.Add(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ours, Name: secret}, Data: c.data}); err != nil {
			t.Fatal(err)
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, f := range families {
			if !strings.Contains(string(dashboards.Rules), "("+f.GetName()+")") {
				continue
			}
			found = true
			m := f.GetMetric()[0]
			if got := m.GetGauge().GetValue(); got != c.want {
				t.Errorf("%s: %f, want %f", name, got, c.want)
			}
			if whose := fmt.Sprint(m.GetLabel()); !strings.Contains(whose, `name:"webhook"`) || !strings.Contains(whose, `value:"`+component+`"`) {
				t.Errorf("the certificate is of %s, want %s", whose, component)
			}
		}
		if !found {
			t.Fatalf("no rule reads any of %v", families)
		}
	}
}
