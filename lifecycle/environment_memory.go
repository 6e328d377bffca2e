// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// EnvironmentSnapshot is an environment at one moment.
type EnvironmentSnapshot struct {
	// Version is the object's resourceVersion.
	Version string
	// Gone: the object with this UID no longer exists. Only Beneath and BeneathReason are set then.
	Gone bool
	// Unconfirmed is as in Snapshot.
	Unconfirmed bool
	// Beneath is BeneathUnknown if resources that the environment consisted of may still exist, and BeneathReason
	// says why.
	Beneath, BeneathReason string

	// Excluded: the object is not to be announced, because a label says so or because it belongs to
	// another one.
	Excluded bool

	Environment Environment
	// Declared is a hash over what the user declares, after the API version that it is made from and a
	// colon. Counts of replicas, and what a provider adds, are not part of it. It is empty if only the
	// fields of Environment count.
	Declared   string
	Generation int64

	// Ready: the environment can be used.
	Ready bool
	// EverReady: it must have been ready before. It is used for an environment that predates our first
	// observation.
	EverReady bool
	// Settled: all that is declared is in place, and the environment is ready.
	Settled bool
	// Doubtful: the object does not say for which generation Settled holds.
	Doubtful bool
	// Resting: the object is being deleted, or is paused. Trouble neither begins nor ends.
	Resting bool
	// Kept: the environment outlives its object.
	Kept bool
	// Observed: the environment was created by something else, and its provider only looks at it.
	Observed bool

	// Trouble holds the problems that the object reports. Unsure lists the kinds of which it says
	// nothing; all others are over.
	Trouble map[Incident]*Trouble
	Unsure  []Incident

	// Resources are the objects that the environment consists of, as far as its object names them.
	Resources []ResourceRef

	Annotations, Labels map[string]string
}

// EnvironmentMemory is the state kept of one environment. The ledger stores it as JSON; fields are only ever
// added.
type EnvironmentMemory struct {
	// Sequence is the number of the newest transition, and LastTime its time. Times never go back.
	Sequence int64     `json:"sequence,omitempty"`
	LastTime time.Time `json:"lastTime,omitzero"`
	// Version is the resourceVersion of the newest state that was folded in.
	Version string `json:"seen,omitempty"`

	// Announced: it was announced that the object exists, or the object predates our first observation.
	Announced bool `json:"announced,omitempty"`
	// Baselined: the object predates our first observation.
	Baselined bool `json:"baselined,omitempty"`
	// Created: the environment was ready.
	Created  bool `json:"created,omitempty"`
	Removed  bool `json:"removed,omitempty"`
	Excluded bool `json:"excluded,omitempty"`
	Kept     bool `json:"kept,omitempty"`
	Observed bool `json:"observed,omitempty"`

	Generation  int64             `json:"generation,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Labels are the object's own, and NamespaceLabels those of its namespace at the last journal write.
	Labels          map[string]string `json:"labels,omitempty"`
	NamespaceLabels map[string]string `json:"namespaceLabels,omitempty"`

	// Environment and Declared are what was last announced, or in place when nothing was to be announced.
	Environment Environment `json:"environment"`
	Declared    string      `json:"declared,omitempty"`
	// Resources are the objects that the environment consists of.
	Resources []ResourceRef `json:"resources,omitempty"`

	// AwaitedSince is since when it has been seen that the environment is to be created. It is zero while it is not: once
	// it is ready, and while its object is paused, being deleted or left out.
	AwaitedSince time.Time `json:"awaitedSince,omitzero"`
	// Last is the newest transition that later ones link to.
	Last     *TransitionRef        `json:"last,omitempty"`
	Episodes map[Incident]*Episode `json:"episodes,omitempty"`
	Waits    map[Wait]time.Time    `json:"-"`
}

// Gone reports whether the environment is gone.
func (m EnvironmentMemory) Gone() bool { return m.Removed }

// Selection returns the labels that sources select by.
func (m EnvironmentMemory) Selection() (own, namespace map[string]string) {
	return m.Labels, m.NamespaceLabels
}

// Stored returns the value for the ledger. A namespace that is not nil replaces the labels of the namespace.
func (m EnvironmentMemory) Stored(namespace map[string]string) any {
	if namespace != nil {
		m.NamespaceLabels = namespace
	}
	return m
}

// Covers reports whether this memory equals another one, apart from the resource version, the generation,
// waits and the labels of the namespace.
func (m EnvironmentMemory) Covers(other EnvironmentMemory) bool {
	other.Version, other.Generation = m.Version, m.Generation
	other.Waits, other.NamespaceLabels = m.Waits, m.NamespaceLabels
	return reflect.DeepEqual(m, other)
}

func (m EnvironmentMemory) clone() EnvironmentMemory {
	m.Episodes, m.Waits = maps.Clone(m.Episodes), maps.Clone(m.Waits)
	return m
}

// journalTime returns a time as it is journaled, never before the last one.
func (m *EnvironmentMemory) journalTime(at time.Time) time.Time { return journalTime(at, m.LastTime) }

// differs names what distinguishes two environments. What is unknown of either is not compared.
func (m *EnvironmentMemory) differs(s EnvironmentSnapshot) []string {
	var out []string
	was, is := m.Environment, s.Environment
	for _, field := range []struct{ name, was, is string }{
		{"version", was.Version, is.Version}, {"region", was.Region, is.Region}, {"url", was.URL, is.URL}, {"class", was.Class, is.Class},
	} {
		if field.was != "" && field.is != "" && field.was != field.is {
			out = append(out, field.name)
		}
	}
	// A hash of another version of the API says nothing: the same object looks different there.
	if sameForm(m.Declared, s.Declared) {
		if !slices.Equal(was.Pools, is.Pools) {
			out = append(out, "pools")
		}
		if m.Declared != s.Declared {
			out = append(out, "spec")
		}
	}
	return out
}

// sameForm reports whether two hashes are made from the same version of an API, so that they can be compared.
func sameForm(a, b string) bool {
	x, _, some := strings.Cut(a, ":")
	y, _, others := strings.Cut(b, ":")
	return some && others && x == y
}
