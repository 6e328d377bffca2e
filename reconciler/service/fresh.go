// SPDX-License-Identifier: Apache-2.0

package service

import (
	"maps"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// fresh removes the parts of a snapshot that are older than the memory: the previous leader may have had newer
// caches. news is false if nothing remains. lagging says that a part is to be looked at again: if the version of the
// memory shows nothing else, no update leads to a decision, and what waits for its time would wait for ever.
func (k *Kind) fresh(m lifecycle.Memory, s *lifecycle.Snapshot, from observer.Step) (news, lagging bool) {
	s.Versions = maps.Clone(s.Versions)
	old := false
	past := func(name string) bool {
		is := observer.Older(s.Versions[name], m.Versions[name])
		if old = old || is; is {
			delete(s.Versions, name)
		}
		return is
	}
	if past(lifecycle.ObjectService) {
		s.Stale = true
	}
	if past(lifecycle.ObjectRoute) {
		s.Route, s.RouteStale = nil, true
	}
	news = len(s.Versions) > 0
	lagging = k.freshDomains(m, s, from)
	return news, lagging || old && len(from.Later()) == 0
}

// freshDomains does the same for DomainMappings. A deleted one has no version, so all of
// them count as one part with the version of their list.
func (k *Kind) freshDomains(m lifecycle.Memory, s *lifecycle.Snapshot, from observer.Step) (lagging bool) {
	now, seen := from.Position, m.Versions[lifecycle.ObjectDomains]
	if now == "" {
		return false // without a version, everything counts as new
	}
	if observer.Older(now, seen) && len(from.Later()) == 0 {
		// This is the last step of the history. If the caches hold the same DomainMappings, the
		// step is as new as the caches.
		if at := k.Position(); sameDomains(from.Parts, k.Cached(from.Key)) {
			now = observer.Newest(at, now)
		}
		// The previous leader may have had a newer list. A bookmark brings ours up to date within
		// about a minute. Unchanged URLs need not wait for it.
		lagging = observer.Older(now, seen) && s.Route != nil && lifecycle.Changed(m.URLs, s.Route.URLs)
	}
	if s.URLsStale = observer.Older(now, seen); !s.URLsStale {
		s.Versions[lifecycle.ObjectDomains] = now
	}
	return lagging
}

// sameDomains reports whether both have the same DomainMappings in the same versions.
func sameDomains(a, b observer.Parts) bool {
	has := func(a, b observer.Parts) bool {
		for name, p := range a {
			if p.Floating && p.Value != nil && b[name].Version != p.Version {
				return false
			}
		}
		return true
	}
	return has(a, b) && has(b, a)
}
