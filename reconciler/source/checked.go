// SPDX-License-Identifier: Apache-2.0

package source

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/reconciler/source/valid"
)

// checked caches the problems of each source's spec. A source is reconciled every ten
// seconds, and checking hostile filters takes most of a CPU. The result depends on the
// generation only.
type checked struct {
	// check finds the problems; nil means valid.Spec.
	check func(s *v1alpha1.CDEventSource, system string) *valid.ProblemError

	mu    sync.Mutex
	known map[types.NamespacedName]finding
}

type finding struct {
	uid        types.UID
	generation int64
	problem    *valid.ProblemError
}

func (c *checked) problems(s *v1alpha1.CDEventSource, system string) *valid.ProblemError {
	source := types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
	c.mu.Lock()
	f, ok := c.known[source]
	c.mu.Unlock()
	if ok && f.uid == s.UID && f.generation == s.Generation {
		return f.problem
	}
	check := c.check
	if check == nil {
		check = valid.Spec
	}
	f = finding{uid: s.UID, generation: s.Generation, problem: check(s, system)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[types.NamespacedName]finding{}
	}
	c.known[source] = f
	return f.problem
}

func (c *checked) forget(source types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, source)
}
