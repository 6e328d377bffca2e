// SPDX-License-Identifier: Apache-2.0

package route

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// The limits of a namespace leave room in each journal for all of its sources, and for the
// operator's. The webhook and a condition explain them; the router enforces them.
const (
	// MaxSources is how many sources of one namespace can be recipients; the oldest are. The
	// controller's own namespace has no limit.
	MaxSources = 32
	// MaxForm limits what a source's environment and ceOverrides add to a journal, in
	// bytes of JSON.
	MaxForm = 8 << 10
	// maxFilterText limits all filters of a source together, in bytes of JSON.
	maxFilterText = 64 << 10
)

// FormSize returns how much a source adds to a journal, in bytes of JSON.
func FormSize(s *v1alpha1.CDEventSource) int {
	p := v1alpha1.Profile{}
	if s.Spec.Environment != nil {
		p.Environment = *s.Spec.Environment
	}
	if o := s.Spec.CloudEventOverrides; o != nil {
		p.Extensions = o.Extensions
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return 0 // strings always encode
	}
	return len(raw)
}

// Surplus returns the youngest sources of one namespace, those beyond MaxSources.
func Surplus(all []*v1alpha1.CDEventSource) map[types.UID]bool {
	live := slices.DeleteFunc(slices.Clone(all), func(s *v1alpha1.CDEventSource) bool {
		return s.DeletionTimestamp != nil
	})
	slices.SortFunc(live, byAge)
	out := map[types.UID]bool{}
	for _, s := range live[min(len(live), MaxSources):] {
		out[s.UID] = true
	}
	return out
}

// LetIn returns the sources of a namespace that become recipients because another one leaves.
func (r *Router) LetIn(leaves *v1alpha1.CDEventSource) []*v1alpha1.CDEventSource {
	if leaves.Namespace == r.SystemNamespace {
		return nil
	}
	now := slices.DeleteFunc(slices.Clone(r.Sources.Of(leaves.Namespace)), func(s *v1alpha1.CDEventSource) bool {
		return s.UID == leaves.UID
	})
	was := leaves.DeepCopy()
	was.DeletionTimestamp = nil
	before, still := Surplus(append(slices.Clone(now), was)), Surplus(now)
	return slices.DeleteFunc(now, func(s *v1alpha1.CDEventSource) bool { return !before[s.UID] || still[s.UID] })
}

func byAge(a, b *v1alpha1.CDEventSource) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
}

// candidates returns the sources that may be recipients for a namespace: the operator's
// first, then by age. For a cluster-scoped object there are only the operator's. While the journal has room, it
// takes them in this order.
func (r *Router) candidates(namespace string) (candidates []*v1alpha1.CDEventSource, surplus map[types.UID]bool) {
	operators, tenants := slices.Clone(r.Sources.Of(r.SystemNamespace)), []*v1alpha1.CDEventSource(nil)
	if namespace != "" && namespace != r.SystemNamespace {
		tenants = slices.Clone(r.Sources.Of(namespace))
	}
	slices.SortFunc(operators, byAge)
	slices.SortFunc(tenants, byAge)
	return slices.Concat(operators, tenants), Surplus(tenants)
}

// checkFilterText rejects filters that are too long.
func checkFilterText(filters []v1alpha1.Filter) error {
	raw, err := json.Marshal(filters)
	if err != nil {
		return fmt.Errorf("spec.filters cannot be read: %w", err)
	}
	if len(raw) > maxFilterText {
		return fmt.Errorf("spec.filters has %d bytes; it must not have more than %d", len(raw), maxFilterText)
	}
	return nil
}
