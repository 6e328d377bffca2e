// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	servingv1beta1 "knative.dev/serving/pkg/apis/serving/v1beta1"
)

// point creates or updates a DomainMapping to a Service.
func (c *cluster) point(domain string, s *service, works bool) {
	o := &servingv1beta1.DomainMapping{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: domain, UID: types.UID("uid-" + domain)}}
	o.Spec.Ref = duckv1.KReference{APIVersion: servingAPI, Kind: "Service", Name: s.key.Name}
	o.Status.Conditions, o.Status.URL = ready(works), mustURL("https://"+domain)
	c.domains[domain] = o
	c.write(logDomains, o, false)
	c.mapped()
}

// unmap deletes a DomainMapping.
func (c *cluster) unmap(domain string) {
	o := c.domains[domain].DeepCopy()
	delete(c.domains, domain)
	c.write(logDomains, o, true)
	c.mapped()
}

// remap changes a DomainMapping as a user might.
func (c *cluster) remap(s *service) {
	domain := fmt.Sprintf("d%d.example.org", c.rng.IntN(3))
	if _, ok := c.domains[domain]; ok && c.rng.IntN(3) == 0 {
		c.unmap(domain)
		return
	}
	c.point(domain, s, c.rng.IntN(4) > 0)
}

// mapped records the domains that map to each name from now on. Those that are not ready are marked.
func (c *cluster) mapped() {
	now := map[string][]string{}
	for _, o := range c.domains {
		url := o.Status.URL.String()
		if !o.IsReady() {
			url = awayMark + url
		}
		now[o.Spec.Ref.Name] = append(now[o.Spec.Ref.Name], url)
	}
	for name := range c.mappings {
		if _, ok := now[name]; !ok {
			now[name] = nil
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		slices.Sort(now[name])
		urls := strings.Join(now[name], " ")
		was := c.mappings[name]
		if was == nil {
			was = []string{""}
		}
		if was[len(was)-1] != urls {
			was = append(was, urls)
		}
		c.mappings[name] = was
	}
}

// awayMark is before the URL of a DomainMapping that is not ready. For a while, such a URL stays published.
const awayMark = "-"

// shows reports whether URLs may be published while those were mapped: all that are ready, and of the others any.
func shows(mapped string, urls []string) bool {
	all := strings.Fields(mapped)
	for _, u := range all {
		if !strings.HasPrefix(u, awayMark) && !slices.Contains(urls, u) {
			return false
		}
	}
	return !slices.ContainsFunc(urls, func(u string) bool { return !slices.Contains(all, u) && !slices.Contains(all, awayMark+u) })
}

// judgeURLs checks that the events contain the URLs that a Service had, in that order,
// and end with its current URL.
func (w *world) judgeURLs(s *service, mine []delivered) {
	had := w.cluster.mappings[s.key.Name]
	if had == nil {
		had = []string{""}
	}
	at, last := 0, "-"
	for _, d := range mine {
		if short(d.typ) != "published" {
			continue
		}
		urls := slices.DeleteFunc(slices.Clone(d.urls), func(u string) bool { return u == s.url() })
		told := strings.Join(slices.Sorted(slices.Values(urls)), " ")
		next := slices.IndexFunc(had[at:], func(mapped string) bool { return shows(mapped, urls) })
		switch {
		case len(urls) == len(d.urls):
			w.fail("%s: published without its own URL: %v", s.uid, d.urls)
		case next < 0:
			w.fail("%s: published under %v, which is not what happened next: %q of %q", s.uid, d.urls, had[at:], had)
			return
		case told == last && s.restored == 0:
			w.fail("%s: published twice under %v", s.uid, d.urls)
		}
		at, last = at+max(next, 0), told
	}
	if now := had[len(had)-1]; !s.deleted && s.restored == 0 && last != "-" && !shows(now, strings.Fields(last)) {
		w.fail("%s: published under %q, and in the end it is %q", s.uid, last, now)
	}
}
