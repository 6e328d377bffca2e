// SPDX-License-Identifier: Apache-2.0

package sender

import (
	"bytes"
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
)

// bundles are the ConfigMaps whose certificate authorities are trusted besides those of the
// system and of each sink: the last valid version of each.
type bundles struct {
	good    cache.Indexer
	changes atomic.Int64
}

func newBundles() *bundles {
	return &bundles{good: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
}

// generation changes whenever the trusted authorities do.
func (b *bundles) generation() int64 { return b.changes.Load() }

// lister returns the bundles in the form that eventing's library expects.
func (b *bundles) lister() corev1listers.ConfigMapNamespaceLister {
	return corev1listers.NewConfigMapLister(b.good).ConfigMaps(metav1.NamespaceAll)
}

// add stores a bundle, and says whether it changes which authorities are trusted.
func (b *bundles) add(bundle *corev1.ConfigMap) (bool, error) {
	if err := checkBundle(bundle); err != nil {
		return false, err
	}
	before, exists, err := b.good.Get(bundle)
	if err != nil {
		return false, fmt.Errorf("looking for the last one: %w", err)
	}
	if was, ok := before.(*corev1.ConfigMap); exists && ok &&
		equality.Semantic.DeepEqual(was.Data, bundle.Data) && equality.Semantic.DeepEqual(was.BinaryData, bundle.BinaryData) {
		return false, nil
	}
	if err := b.good.Add(bundle); err != nil {
		return false, fmt.Errorf("keeping it: %w", err)
	}
	b.changes.Add(1)
	return true, nil
}

func (b *bundles) remove(bundle *corev1.ConfigMap) {
	_ = b.good.Delete(bundle) // deleting from memory fails only without a name
	b.changes.Add(1)
}

var (
	begin = []byte("-----BEGIN CERTIFICATE-----")

	errNoCertificate = errors.New("it contains no certificate in PEM; to stop trusting it, delete it or remove its label " + eventingtls.TrustBundleLabelKey)
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
		return 0, fmt.Errorf("%d certificates begin, and %d of them are complete in PEM", announced, found)
	}
	return found, nil
}
