// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// published announces that the Service is reachable from outside, or that its URLs changed. It
// follows Deployed: a Service that is not deployed is not for use.
func (b *builder) published() {
	kept := b.kept()
	r := b.s.Route
	if !b.m.Deployed || r == nil || !r.Effective || b.s.URLsStale {
		return
	}
	urls, complete := b.reachable(r)
	if urls = WithURLs(urls, kept); !complete || !Changed(b.m.URLs, urls) {
		return
	}
	b.m.URLs = urls
	if len(urls) == 0 {
		return // no longer external; the specification has no event for it
	}
	b.emit(Transition{Type: Published, Revision: b.m.revision(b.m.Primary), Links: b.m.Last.link(LinkPath)})
}

// reachable returns the Route's URLs, without those that have not been reachable yet because they wait for a
// certificate. A URL that was reachable stays so, as was published. It is not complete without the Service's own.
func (b *builder) reachable(r *Route) (urls []string, complete bool) {
	for i, u := range r.URLs {
		if !slices.Contains(r.Uncertified, u) {
			urls = append(urls, u)
			continue
		}
		was := slices.IndexFunc(b.m.URLs, func(p string) bool { return host(p) == host(u) })
		switch {
		case was >= 0:
			urls = append(urls, b.m.URLs[was])
		case i == 0:
			return nil, false
		}
	}
	return urls, true
}

// kept returns the published URLs of DomainMappings that are not Ready, but have not been so for long: their
// ingress is configured anew now and then, and serves all the while.
func (b *builder) kept() []string {
	if b.s.URLsStale {
		return nil // nothing is published, and the waits go on
	}
	limit := b.rules.OutageAfter
	var out []string
	away := map[Wait]bool{}
	for _, u := range b.m.URLs {
		if !slices.ContainsFunc(b.s.Away, func(a string) bool { return host(a) == host(u) }) {
			continue
		}
		wait := urlWait(u)
		away[wait] = true
		if limit <= 0 || !b.over(b.since(wait, b.now, limit), limit) {
			out = append(out, u)
		}
	}
	maps.DeleteFunc(
		b.m.Waits,
		func(w Wait, _ time.Time) bool { return strings.HasPrefix(string(w), urlWaits) && !away[w] },
	)
	return out
}

// urlWaits begins the names of waits for the URL of a DomainMapping.
const urlWaits = "url/"

func urlWait(u string) Wait { return Wait(urlWaits + host(u)) }

// host returns the host of a URL. The scheme changes with the certificate.
func host(u string) string {
	_, rest, _ := strings.Cut(u, "://")
	name, _, _ := strings.Cut(rest, "/")
	return name
}

// WithURLs adds URLs, and keeps the order: the Service's own comes first, the others are sorted.
func WithURLs(urls, more []string) []string {
	if len(more) == 0 {
		return urls
	}
	own := urls[:min(1, len(urls))]
	others := slices.Concat(urls[len(own):], more)
	slices.Sort(others)
	return BoundURLs(slices.Concat(own, slices.Compact(others)))
}

// Changed reports whether two sets of URLs differ.
func Changed(a, b []string) bool {
	x, y := slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return !slices.Equal(slices.Compact(x), slices.Compact(y))
}
