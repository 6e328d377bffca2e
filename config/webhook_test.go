// SPDX-License-Identifier: Apache-2.0

package config

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
)

func TestWebhooksCallOurService(t *testing.T) {
	t.Parallel()
	secrets := of[*corev1.Secret](t)
	if len(secrets) != 1 || len(secrets[0].Data)+len(secrets[0].StringData) > 0 {
		t.Errorf("the manifests contain a certificate: %v", secrets)
	}
	all := of[*admissionregistrationv1.ValidatingWebhookConfiguration](t)
	if len(all) != 2 {
		t.Fatalf("%d configurations", len(all))
	}
	for _, c := range all {
		// Knative's controllers update the webhook that has the name of its configuration.
		if len(c.Webhooks) != 1 || c.Webhooks[0].Name != c.Name {
			t.Fatalf("%s: %+v", c.Name, c.Webhooks)
		}
		w := c.Webhooks[0]
		if s := w.ClientConfig.Service; s == nil || s.Name != "webhook" || s.Namespace != namespace || s.Port != nil {
			t.Errorf("%s calls %+v", c.Name, s)
		}
		if w.SideEffects == nil || *w.SideEffects != admissionregistrationv1.SideEffectClassNone {
			t.Errorf("%s rejects dry runs", c.Name)
		}
		if c.Name == "config.webhook.knative-cdevents.dev" && w.NamespaceSelector.MatchLabels[corev1.LabelMetadataName] != namespace {
			t.Errorf("%s covers ConfigMaps of others: %+v", c.Name, w.NamespaceSelector)
		}
	}
}
