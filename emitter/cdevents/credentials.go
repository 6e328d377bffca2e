// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"maps"
	"slices"

	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// withoutCredentials returns both without the credentials in what others wrote. Observers cut them out, too, so that
// the ledger has none; this is the door, for what an earlier release remembers, and for what no observer has seen. What
// they share with the journal does not change.
func withoutCredentials(p v1alpha1.Profile, t lifecycle.Transition) (v1alpha1.Profile, lifecycle.Transition) {
	clean(&p.Source, &p.Environment.ID, &p.Environment.Source, &t.Reason)
	p.Extensions = cleanMap(p.Extensions)
	t.Annotations, t.URLs = cleanMap(t.Annotations), cleanList(t.URLs)
	t.Revision, t.Previous = cleanRevision(t.Revision), cleanRevision(t.Previous)
	if t.Incident != nil {
		i := *t.Incident
		clean(&i.Reason, &i.Message)
		t.Incident = &i
	}
	if t.Cluster != nil {
		c := *t.Cluster
		clean(&c.Runtime, &c.Regime, &c.Note)
		t.Cluster = &c
	}
	t.Verdict, t.Environment = cleanVerdict(t.Verdict), cleanEnvironment(t.Environment)
	return p, t
}

func clean(all ...*string) {
	for _, s := range all {
		*s = sanitize.WithoutCredentials(*s)
	}
}

func cleanList(all []string) []string {
	all = slices.Clone(all)
	for i := range all {
		clean(&all[i])
	}
	return all
}

func cleanMap(all map[string]string) map[string]string {
	all = maps.Clone(all)
	for k, v := range all {
		all[k] = sanitize.WithoutCredentials(v)
	}
	return all
}

func cleanRevision(r *lifecycle.Revision) *lifecycle.Revision {
	if r == nil {
		return nil
	}
	out := *r
	out.Annotations, out.Images = cleanMap(r.Annotations), slices.Clone(r.Images)
	for i := range out.Images {
		clean(&out.Images[i].Container, &out.Images[i].Image, &out.Images[i].Digest)
	}
	return &out
}

func cleanVerdict(v *lifecycle.Verdict) *lifecycle.Verdict {
	if v == nil {
		return nil
	}
	out := *v
	clean(&out.Message)
	out.Reasons, out.Metrics = cleanList(v.Reasons), slices.Clone(v.Metrics)
	for i := range out.Metrics {
		clean(&out.Metrics[i].Name, (*string)(&out.Metrics[i].Reason))
	}
	return &out
}

func cleanEnvironment(e *lifecycle.EnvironmentDetails) *lifecycle.EnvironmentDetails {
	if e == nil {
		return nil
	}
	state := func(s lifecycle.Environment) lifecycle.Environment {
		clean(&s.ID, &s.Provider, &s.Version, &s.Region, &s.URL, &s.Class, &s.Note)
		s.Pools = cleanList(s.Pools)
		return s
	}
	out := *e
	out.Environment = state(e.Environment)
	clean(&out.BeneathReason)
	if e.Previous != nil {
		previous := state(*e.Previous)
		out.Previous = &previous
	}
	return &out
}
