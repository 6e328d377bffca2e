// SPDX-License-Identifier: Apache-2.0

// Package trust holds the certificate authorities that sinks are trusted by: those of Knative Eventing, as Eventing
// reads them.
package trust

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"knative.dev/eventing/pkg/eventingtls"

	"github.com/knative-cdevents/knative-cdevents/api/plural"
)

// Trust holds the certificate authorities that are trusted besides those of the system and of each sink: the last
// valid version of each ConfigMap of trust bundles. Use New to make one.
type Trust struct {
	valid   cache.Indexer
	changes atomic.Int64
	// changed is called after each change.
	changed []func()
}

// New returns one without any bundle.
func New() *Trust {
	return &Trust{valid: cache.NewIndexer(cache.MetaNamespaceKeyFunc,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
}

// OnChange has f called after each change. Call it before the first Add.
func (t *Trust) OnChange(f func()) { t.changed = append(t.changed, f) }

// Generation changes whenever the trusted authorities do. A connection from before is not used again.
func (t *Trust) Generation() int64 { return t.changes.Load() }

// TLS returns the configuration of a client that also trusts the authorities of a sink, in PEM.
func (t *Trust) TLS(caCerts string) (*tls.Config, error) {
	config, err := eventingtls.GetTLSClientConfig(eventingtls.ClientConfig{
		CACerts:                    &caCerts,
		TrustBundleConfigMapLister: corev1listers.NewConfigMapLister(t.valid).ConfigMaps(metav1.NamespaceAll),
	})
	if err != nil {
		return nil, fmt.Errorf("reading the sink's CA certificates (spec.sink.CACerts, or status.address.CACerts "+
			"of the sink): %w", err)
	}
	return config, nil
}

// Add trusts the authorities in a ConfigMap. If it is invalid, its previous content stays trusted.
func (t *Trust) Add(bundle *corev1.ConfigMap) error {
	changed, err := t.add(bundle)
	if err != nil {
		return fmt.Errorf("reading the trust bundle in ConfigMap %s/%s: %w", bundle.Namespace, bundle.Name, err)
	}
	if changed {
		t.notify()
	}
	return nil
}

// Remove trusts the authorities of a ConfigMap no longer.
func (t *Trust) Remove(bundle *corev1.ConfigMap) {
	_ = t.valid.Delete(bundle) // deleting from memory fails only without a name
	t.notify()
}

func (t *Trust) notify() {
	t.changes.Add(1)
	for _, f := range t.changed {
		f()
	}
}

// add stores a bundle, and says whether it changes which authorities are trusted.
func (t *Trust) add(bundle *corev1.ConfigMap) (bool, error) {
	if err := checkBundle(bundle); err != nil {
		return false, err
	}
	before, exists, err := t.valid.Get(bundle)
	if err != nil {
		return false, fmt.Errorf("looking for the last one: %w", err)
	}
	if was, ok := before.(*corev1.ConfigMap); exists && ok &&
		equality.Semantic.DeepEqual(was.Data, bundle.Data) &&
		equality.Semantic.DeepEqual(was.BinaryData, bundle.BinaryData) {
		return false, nil
	}
	if err := t.valid.Add(bundle); err != nil {
		return false, fmt.Errorf("keeping it: %w", err)
	}
	return true, nil
}

var (
	begin = []byte("-----BEGIN CERTIFICATE-----")

	errNoCertificate = errors.New("it contains no certificate in PEM; to stop trusting it, delete it or remove its " +
		"label " +
		eventingtls.TrustBundleLabelKey)
)

// checkBundle requires every certificate in a bundle to be valid: half a bundle would revoke
// trust by accident. It ignores what is not PEM, such as a Java keystore.
func checkBundle(bundle *corev1.ConfigMap) error {
	values := maps.Clone(bundle.BinaryData)
	if values == nil {
		values = map[string][]byte{}
	}
	for key, text := range bundle.Data {
		values[key] = []byte(text)
	}
	found := 0
	for _, key := range slices.Sorted(maps.Keys(values)) {
		n, err := countCertificates(values[key])
		if err != nil {
			return fmt.Errorf("key %q: %w", key, err)
		}
		found += n
	}
	if found == 0 {
		return errNoCertificate
	}
	return nil
}

func countCertificates(text []byte) (int, error) {
	announced, found := bytes.Count(text, begin), 0
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		found++
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return 0, fmt.Errorf("certificate %d cannot be read: %w", found, err)
		}
	}
	if found != announced {
		return 0, fmt.Errorf("only %d of %s complete in PEM", found, plural.Of(announced, "certificate is", "certificates are"))
	}
	return found, nil
}
