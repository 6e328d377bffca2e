// SPDX-License-Identifier: Apache-2.0

package source

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/route"
)

const (
	// perSecond is how much CESQL a namespace may have checked in a second, in bytes. Even
	// the most expensive expressions of this length take some milliseconds.
	perSecond = 1 << 10
	// atOnce allows all sources of a namespace to be written at once, however large.
	atOnce = route.MaxSources * route.MaxExpressions
	// maxNamespaces bounds the memory. The namespace that is forgotten has a full budget.
	maxNamespaces = 10_000
)

// Budget limits how much CESQL the webhook parses for each namespace. Otherwise the users of
// one namespace could take the time in which it admits the objects of all others.
type Budget struct {
	// system is the operator's namespace, which has no limit.
	system string
	now    func() time.Time

	mu          sync.Mutex
	byNamespace *lru.Cache
}

// NewBudget returns a budget that no namespace has used.
func NewBudget(system string) *Budget {
	return &Budget{system: system, now: time.Now, byNamespace: lru.New(maxNamespaces)}
}

// Spend takes the cost of checking a source from the budget of its namespace, or refuses the
// source. A source that is refused for its size alone costs nothing.
func (b *Budget) Spend(s *v1alpha1.CDEventSource) *apis.FieldError {
	size := route.ExpressionSize(s.Spec.Filters)
	if size == 0 || size > route.MaxExpressions || s.Namespace == b.system {
		return nil
	}
	now := b.now()
	reserved := b.of(s.Namespace).ReserveN(now, size)
	wait := reserved.DelayFrom(now)
	if wait == 0 {
		return nil
	}
	reserved.CancelAt(now)
	return &apis.FieldError{Message: "too many changes", Paths: []string{"spec.filters"}, Details: fmt.Sprintf(
		"namespace %s has had more than %d bytes of CESQL expressions checked, and may have %d more in each second; "+
			"write the source again in %s",
		s.Namespace, atOnce, perSecond, wait.Truncate(time.Second)+time.Second)}
}

// of returns what is left for a namespace.
func (b *Budget) of(namespace string) *rate.Limiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	if left, ok := b.byNamespace.Get(namespace); ok {
		return left.(*rate.Limiter) //nolint:errcheck // nothing else is kept there
	}
	left := rate.NewLimiter(perSecond, atOnce)
	b.byNamespace.Add(namespace, left)
	return left
}
