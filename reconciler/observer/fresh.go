package observer

import (
	"maps"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// fresh takes out of a snapshot what is older than the memory: the ledger may
// have been written by a leader whose caches were ahead of ours. It returns
// false where nothing is left to be looked at.
func (f *fold) fresh(m lifecycle.Memory, s lifecycle.Snapshot, from step) (lifecycle.Snapshot, bool) {
	s.Seen = maps.Clone(s.Seen)
	past := func(name string) bool {
		now, ok := s.Seen[name]
		if ok = ok && older(now, m.Seen[name]); ok {
			delete(s.Seen, name)
		}
		return ok
	}
	if past(lifecycle.SeenService) {
		s.Past = true
	}
	if past(lifecycle.SeenRoute) {
		s.Route = nil
	}
	news := len(s.Seen) > 0
	f.floating(m, &s, from)
	return s, news
}

// floating does the same with parts that come and go, as DomainMappings do. One that is
// gone has no version, so that all count together, as of a version of their list.
func (f *fold) floating(m lifecycle.Memory, s *lifecycle.Snapshot, from step) {
	now, seen := from.position, m.Seen[lifecycle.SeenDomains]
	if now == "" {
		return // not known, so that nothing is passed over
	}
	if older(now, seen) && from.update.id == f.steps[len(f.steps)-1].update.id {
		// Nothing has come since. The caches know whether there was anything.
		if at := f.o.Kind.Position(); sameFloating(from.parts, f.o.Kind.Cached(f.key)) {
			now = newest(at, now)
		}
		// The leader may have begun after us, with a newer list. A bookmark brings ours up to
		// it within a minute or so; URLs that are the same need not wait for it.
		f.lagging = f.lagging || older(now, seen) && s.Route != nil && lifecycle.Changed(m.URLs, s.Route.URLs)
	}
	if s.URLsPast = older(now, seen); !s.URLsPast {
		s.Seen[lifecycle.SeenDomains] = now
	}
}

// sameFloating says whether both have the same floating parts, in the same versions.
func sameFloating(a, b Parts) bool {
	has := func(a, b Parts) bool {
		for name, p := range a {
			if p.Floating && p.Value != nil && b[name].Version != p.Version {
				return false
			}
		}
		return true
	}
	return has(a, b) && has(b, a)
}

// newest is the later one of two versions, where both are known.
func newest(a, b string) string {
	if _, err := resourceversion.CompareResourceVersion(a, a); err != nil || older(a, b) {
		return b
	}
	return a
}
