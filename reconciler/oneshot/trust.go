// SPDX-License-Identifier: Apache-2.0

package oneshot

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport/trust"
)

// trusted are the trust bundles as they were read last.
type trusted struct {
	*trust.Trust

	mu      sync.Mutex
	bundles map[string]*corev1.ConfigMap
}

// replace trusts what is in these bundles, and nothing else. Connections stay as long as that is the same.
func (t *trusted) replace(ctx context.Context, now []corev1.ConfigMap) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := map[string]*corev1.ConfigMap{}
	for i := range now {
		b := &now[i]
		kept[b.Name] = b
		if err := t.Add(b); err != nil {
			logging.FromContext(ctx).Errorw("A trust bundle is ignored", "error", err)
		}
	}
	for name, b := range t.bundles {
		if kept[name] == nil {
			t.Remove(b)
		}
	}
	t.bundles = kept
}
