// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"slices"

	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Environment describes, in our events, the object that an environment was provisioned by, and what it
// is after the transition.
type Environment struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Namespace is absent if the kind is cluster-scoped.
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Generation int64  `json:"generation,omitempty"`
	EnvironmentState
	// Previous is what it was before a modification.
	Previous *EnvironmentState `json:"previous,omitempty"`
	// Changed names what a modification changed: version, region, url, class, pools or spec.
	Changed []string `json:"changed,omitempty"`
	// Beneath is Unknown if the resources of a deleted environment may still exist.
	Beneath string `json:"beneath,omitempty"`
	// BeneathReason says why.
	BeneathReason string `json:"beneathReason,omitempty"`
}

// EnvironmentState is what is known of an environment.
type EnvironmentState struct {
	// Provider is cluster-api or crossplane; absent for others.
	Provider string `json:"provider,omitempty"`
	// Version is what runs in it, for example the version of Kubernetes.
	Version string `json:"version,omitempty"`
	Region  string `json:"region,omitempty"`
	// URL is its endpoint.
	URL string `json:"url,omitempty"`
	// Class is the ClusterClass or Composition that it is made from.
	Class string `json:"class,omitempty"`
	// Pools are the names of its pools of workers.
	Pools []string `json:"pools,omitempty"`
	// Note says what could not be read.
	Note string `json:"note,omitempty"`
}

// The maximum number of pools in an event, and the maximum length of a name in Kubernetes.
const (
	maxPools = 64
	maxName  = 253
)

func environmentData(s v1alpha1.CDEventSubjectSpec, t lifecycle.Transition, n *notes) *Environment {
	if t.Environment == nil {
		return nil
	}
	e := &Environment{
		APIVersion:       s.APIVersion,
		Kind:             s.Kind,
		Namespace:        s.Namespace,
		Name:             s.Name,
		UID:              string(s.UID),
		Generation:       t.Generation,
		EnvironmentState: environmentState("customData.environment", t.Environment.Environment, n),
		Changed:          t.Environment.Changed,
		Beneath:          t.Environment.Beneath,
		BeneathReason:    sanitize.Truncate(t.Environment.BeneathReason, maxProvenance),
	}
	if p := t.Environment.Previous; p != nil {
		previous := environmentState("customData.environment.previous", *p, n)
		e.Previous = &previous
	}
	return e
}

func environmentState(field string, from lifecycle.Environment, n *notes) EnvironmentState {
	return EnvironmentState{
		Provider: from.Provider,
		Version:  bounded(field+".version", from.Version, n),
		Region:   bounded(field+".region", from.Region, n),
		URL:      endpoint(field+".url", from.URL, n),
		Class:    bounded(field+".class", from.Class, n),
		Pools:    pools(field+".pools", from.Pools, n),
		Note:     sanitize.Truncate(from.Note, maxProvenance),
	}
}

// bounded returns a value if an event can carry it.
func bounded(field, v string, n *notes) string {
	if !carriable(v) {
		n.add(field, "left out: it must not exceed %d bytes or hold control characters", maxProvenance)
		return ""
	}
	return v
}

// endpoint returns an absolute URI with a host. The schema of the specification allows no relative one, and an event is
// no place for credentials.
func endpoint(field, v string, n *notes) string {
	if v == "" {
		return ""
	}
	if u, ok := parseURI(v); !ok || len(v) > maxProvenance || u.Scheme == "" || u.Host == "" || u.User != nil {
		n.add(field, "left out: it must be an absolute URI with a host and without credentials, of at most %d bytes",
			maxProvenance)
		return ""
	}
	return v
}

func pools(field string, all []string, n *notes) []string {
	out := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return len(name) > maxName || !printable(name) })
	if len(out) < len(all) {
		n.add(field, "names of more than %d bytes or with control characters left out", maxName)
	}
	if len(out) > maxPools {
		n.add(field, "names after the first %d left out", maxPools)
		out = out[:maxPools]
	}
	return out
}

// details are what may be left out of an event, the least important first.
func (e *Environment) details() []detail {
	return []detail{
		{"previous.pools", func() {
			if e.Previous != nil {
				e.Previous.Pools = nil
			}
		}},
		{"previous", func() { e.Previous = nil }},
		{"pools", func() { e.Pools = nil }},
	}
}

// ofEnvironment reports whether a transition is about an environment.
func ofEnvironment(t lifecycle.Transition) bool {
	if t.Incident == nil {
		return t.Type.OfEnvironment()
	}
	switch t.Incident.Kind {
	case lifecycle.EnvironmentOutage, lifecycle.EnvironmentDegraded, lifecycle.EnvironmentNotCreated:
		return true
	}
	return false
}
