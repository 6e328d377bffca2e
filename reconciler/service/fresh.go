package service

import (
	"maps"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// fresh takes out of a snapshot what is older than the memory: the ledger may
// have been written by a leader whose caches were ahead of ours. News is false if
// nothing is left.
func (k *Kind) fresh(m lifecycle.Memory, s *lifecycle.Snapshot, from observer.Step) (news, lagging bool) {
	s.Versions = maps.Clone(s.Versions)
	past := func(name string) bool {
		is := observer.Older(s.Versions[name], m.Versions[name])
		if is {
			delete(s.Versions, name)
		}
		return is
	}
	if past(lifecycle.ObjectService) {
		s.Stale = true
	}
	if past(lifecycle.ObjectRoute) {
		s.Route = nil
	}
	news = len(s.Versions) > 0
	return news, k.freshDomains(m, s, from)
}

// freshDomains does the same with DomainMappings, which come and go. One that is gone
// has no version, so all count together, as of a version of their list.
func (k *Kind) freshDomains(m lifecycle.Memory, s *lifecycle.Snapshot, from observer.Step) (lagging bool) {
	now, seen := from.Position, m.Versions[lifecycle.ObjectDomains]
	if now == "" {
		return false // not known, so nothing is passed over
	}
	if observer.Older(now, seen) && len(from.Later()) == 0 {
		// Nothing has come since. The caches know whether there was anything.
		if at := k.Position(); sameDomains(from.Parts, k.Cached(from.Key)) {
			now = observer.Newest(at, now)
		}
		// The leader may have started after us, with a newer list. A bookmark brings ours up to
		// it within a minute or so; URLs that are the same need not wait for it.
		lagging = observer.Older(now, seen) && s.Route != nil && lifecycle.Changed(m.URLs, s.Route.URLs)
	}
	if s.URLsStale = observer.Older(now, seen); !s.URLsStale {
		s.Versions[lifecycle.ObjectDomains] = now
	}
	return lagging
}

// sameDomains says whether both have the same DomainMappings, in the same versions.
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
