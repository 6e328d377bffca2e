// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"knative.dev/pkg/configmap"
)

// Ignored logs the keys of a ConfigMap that have no effect, once until they change: a ConfigMap is read again and
// again.
type Ignored struct {
	mu   sync.Mutex
	said []string
}

// Say logs the keys, unless it logged the same ones last.
func (i *Ignored) Say(logger configmap.Logger, c *corev1.ConfigMap, keys []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if slices.Equal(i.said, keys) {
		return
	}
	i.said = keys
	if len(keys) > 0 {
		logger.Errorf("ConfigMap %s/%s has unknown keys, which have no effect: %q", c.Namespace, c.Name, keys)
	}
}
