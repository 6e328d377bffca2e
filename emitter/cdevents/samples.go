// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Samples returns events of each type that a source with this profile receives, about a fictitious
// Service or environment: with and without the optional attributes.
func Samples(p v1alpha1.Profile) ([]event.Event, error) {
	if _, _, err := lookup(p.SpecVersion, lifecycle.Created); err != nil {
		return nil, err
	}
	var out []event.Event
	for i, typ := range slices.Sorted(maps.Keys(table)) {
		if _, supported := table[typ].forms[version(p.SpecVersion)]; !supported {
			continue
		}
		for _, annotations := range []map[string]string{nil, {AnnotationTraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}} {
			ev, err := Render(p, sampleSubject(typ), sample(int64(i+1), typ, annotations))
			if err != nil {
				return nil, fmt.Errorf("making a sample: %w", err)
			}
			out = append(out, ev.Event)
		}
	}
	return out, nil
}

// sampleSubject returns the object that a transition of a type is about.
func sampleSubject(typ lifecycle.Type) v1alpha1.CDEventSubjectSpec {
	s := v1alpha1.CDEventSubjectSpec{
		APIVersion: "serving.knative.dev/v1", Kind: "Service", Namespace: "default", Name: "sample",
		UID: "5f0c1d9e-3c0b-4a52-9b42-6a7f0d3e9c11",
	}
	if typ.OfEnvironment() {
		s.APIVersion, s.Kind = "cluster.x-k8s.io/v1beta2", "Cluster"
	}
	return s
}

// sample returns a transition of a type, with the fields that it requires.
func sample(sequence int64, typ lifecycle.Type, annotations map[string]string) lifecycle.Transition {
	revision := &lifecycle.Revision{
		Name:       "sample-00001",
		UID:        "0b7a54a1-6c0b-4f1e-8f5a-2f1f7a2b9d01",
		Generation: 1,
		Ready:      true,
		Images: []lifecycle.Image{
			{Image: "registry.example.com/sample:1", Digest: "registry.example.com/sample@sha256:" + strings.Repeat("a", 64)},
		},
	}
	t := lifecycle.Transition{
		Sequence:    sequence,
		Time:        time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC),
		Type:        typ,
		Generation:  1,
		Chain:       1,
		Annotations: annotations,
		Revision:    revision,
		Traffic:     []lifecycle.Share{{Revision: revision.Name, Percent: 100}},
		URLs:        []string{"https://sample.default.example.com"},
	}
	if add := table[typ].sample; add != nil {
		add(&t)
	}
	return t
}

func withIncident(t *lifecycle.Transition) {
	t.Incident = &lifecycle.IncidentDetails{
		Kind: lifecycle.Outage, Opened: t.Sequence, Since: t.Time,
		Trouble: lifecycle.Trouble{Reason: "RevisionMissing", Message: "a sample"},
	}
}

func withVerdict(t *lifecycle.Transition) {
	t.Verdict = &lifecycle.Verdict{
		Run: "0d7f0f5c-6a43-4c0e-a7a8-5f6d1c2b3a49", Gate: "sample", Verdict: "Fail",
		Started: t.Time, Completed: t.Time,
	}
}

func withCluster(t *lifecycle.Transition) {
	t.Cluster = &lifecycle.ClusterDetails{ClusterStatus: lifecycle.ClusterStatus{Runtime: "pekko"}}
}

func withEnvironment(t *lifecycle.Transition) {
	t.Revision, t.Traffic, t.URLs = nil, nil, nil
	t.Environment = &lifecycle.EnvironmentDetails{
		Environment: lifecycle.Environment{
			Provider: lifecycle.ProviderClusterAPI,
			Version:  "v1.34.1",
			URL:      "https://sample.example.com:6443",
		},
	}
}
