// SPDX-License-Identifier: Apache-2.0

package route

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// perGeneration caches what is derived from the spec of each source, once per generation.
// Deriving it for one source delays no other. The zero value is ready.
type perGeneration[T any] struct {
	mu       sync.Mutex
	bySource map[types.UID]*made[T]
}

type made[T any] struct {
	generation int64
	once       sync.Once
	value      T
}

func (k *perGeneration[T]) of(s *v1alpha1.CDEventSource, from func(*v1alpha1.CDEventSource) T) *T {
	k.mu.Lock()
	m := k.bySource[s.UID]
	if m == nil || m.generation != s.Generation {
		m = &made[T]{generation: s.Generation}
		if k.bySource == nil {
			k.bySource = map[types.UID]*made[T]{}
		}
		k.bySource[s.UID] = m
	}
	k.mu.Unlock()
	m.once.Do(func() { m.value = from(s) })
	return &m.value
}

func (k *perGeneration[T]) forget(source types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.bySource, source)
}
