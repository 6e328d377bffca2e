// SPDX-License-Identifier: Apache-2.0

package source

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// writes records when the status of each source was last written.
type writes struct {
	mu   sync.Mutex
	last map[types.NamespacedName]time.Time
}

func (w *writes) at(source types.NamespacedName, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil {
		w.last = map[types.NamespacedName]time.Time{}
	}
	w.last[source] = now
}

// wait returns the time until the next write is due.

func (w *writes) wait(source types.NamespacedName, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.last[source]
	if !ok {
		return 0
	}
	return interval - now.Sub(last)
}

func (w *writes) forget(source types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.last, source)
}
