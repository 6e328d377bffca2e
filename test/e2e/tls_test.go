// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/test/certs"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// TestAutoTLS: a Service is published again when its URL changes to https, and back to http. No certificate authority
// is reachable from the test, so it issues what Serving requests, as cert-manager's controller would.
func TestAutoTLS(t *testing.T) {
	if !suite.full {
		t.Skip("it changes Serving's configuration for the whole cluster: make e2e-full")
	}
	s := newScene(t)
	ctx := t.Context()
	s.source("source", service("sink"))
	s.deploy("shop")
	s.sink.exactly(t, birth)

	domainTLS := func(ctx context.Context, value string) {
		patch := fmt.Sprintf(`{"data":{"external-domain-tls":%s}}`, value)
		_, err := suite.Kube.CoreV1().ConfigMaps("knative-serving").Patch(ctx, "config-network", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		s.must(err)
	}
	domainTLS(ctx, `"Enabled"`)
	t.Cleanup(func() { domainTLS(context.WithoutCancel(ctx), "null") })
	s.grant("shop")
	expected := slices.Concat(birth, []string{published})
	if urls := s.sink.exactly(t, expected)[len(expected)-1].cd.CustomData.Knative.URLs; len(urls) != 1 || !strings.HasPrefix(urls[0], "https://") {
		t.Errorf("it is published at %s", urls)
	}
	domainTLS(ctx, "null")
	expected = append(expected, published)
	if urls := s.sink.exactly(t, expected)[len(expected)-1].cd.CustomData.Knative.URLs; len(urls) != 1 || !strings.HasPrefix(urls[0], "http://") {
		t.Errorf("it is published at %s", urls)
	}
}

var certificates = schema.GroupVersionResource{Group: "networking.internal.knative.dev", Version: "v1alpha1", Resource: "certificates"}

// grant waits until Serving requests a certificate for a Service, and issues it.
func (s *scene) grant(name string) {
	s.Helper()
	ctx := s.Context()
	api := suite.Dynamic.Resource(certificates).Namespace(s.ns)
	var cert *unstructured.Unstructured
	s.must(kit.Wait(ctx, time.Minute, "Serving's request for a certificate", func(ctx context.Context) error {
		list, err := api.List(ctx, metav1.ListOptions{LabelSelector: "serving.knative.dev/route=" + name})
		if err != nil {
			return err
		}
		if len(list.Items) == 0 {
			return kit.NotYet("there is no Certificate")
		}
		cert = &list.Items[0]
		return nil
	}))
	secret, _, err := unstructured.NestedString(cert.Object, "spec", "secretName")
	s.must(err)
	pair := certs.NewAuthority(s.T).Issue(name, time.Hour)
	_, err = suite.Kube.CoreV1().Secrets(s.ns).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secret}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: pair.Certificate, corev1.TLSPrivateKeyKey: pair.Key},
	}, metav1.CreateOptions{})
	s.must(err)
	cert.Object["status"] = map[string]any{
		"observedGeneration": cert.GetGeneration(),
		"conditions":         []any{map[string]any{"type": "Ready", "status": "True", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}},
	}
	_, err = api.UpdateStatus(ctx, cert, metav1.UpdateOptions{})
	s.must(err)
}
