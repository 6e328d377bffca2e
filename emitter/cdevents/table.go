package cdevents

import (
	"fmt"
	"slices"

	"github.com/cdevents/sdk-go/pkg/api"
	v04 "github.com/cdevents/sdk-go/pkg/api/v04"
	v05 "github.com/cdevents/sdk-go/pkg/api/v05"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// The versions of the CDEvents specification that can be spoken, as they stand
// in a profile. The events say "0.5.1" and "0.4.1".
const (
	Version05 = "0.5"
	Version04 = "0.4"
)

// form is how a transition is announced in one version of the specification.
type form struct {
	// typ is the type with its own version.
	typ api.CDEventType
	// artifact says that the subject's content names the artifact.
	artifact bool
	// build puts the values into the shape of that type.
	build func(facts) api.CDEventReader
}

// table is the one place that knows what a transition is called. It is keyed by
// version, because the vocabulary is about to grow (deployment.*,
// targetRollout.*) and receivers of an older one will remain.
var table = map[string]map[lifecycle.Type]form{
	Version05: {
		lifecycle.Created:        {typ: created, build: custom05},
		lifecycle.Deployed:       {typ: v05.ServiceDeployedEventType, artifact: true, build: deployed05},
		lifecycle.Published:      {typ: v05.ServicePublishedEventType, build: published05},
		lifecycle.RevisionReady:  {typ: revisionReady, artifact: true, build: custom05},
		lifecycle.TrafficShifted: {typ: trafficShifted, artifact: true, build: custom05},
		lifecycle.Upgraded:       {typ: v05.ServiceUpgradedEventType, artifact: true, build: upgraded05},
		lifecycle.RolledBack:     {typ: v05.ServiceRolledbackEventType, artifact: true, build: rolledBack05},
		lifecycle.Removed:        {typ: v05.ServiceRemovedEventType, build: removed05},

		lifecycle.IncidentDetected: {typ: v05.IncidentDetectedEventType, artifact: true, build: detected05},
		lifecycle.IncidentResolved: {typ: v05.IncidentResolvedEventType, artifact: true, build: resolved05},

		lifecycle.Judged: {typ: v05.TestCaseRunFinishedEventType, build: judged05},

		lifecycle.ClusterFormed:    {typ: clusterFormed, build: custom05},
		lifecycle.ClusterSettled:   {typ: clusterSettled, build: custom05},
		lifecycle.ClusterUnsettled: {typ: clusterUnsettled, build: custom05},
		lifecycle.ClusterRemoved:   {typ: clusterRemoved, build: custom05},
	},
	Version04: {
		lifecycle.Created:        {typ: created, build: custom04},
		lifecycle.Deployed:       {typ: v04.ServiceDeployedEventType, artifact: true, build: deployed04},
		lifecycle.Published:      {typ: v04.ServicePublishedEventType, build: published04},
		lifecycle.RevisionReady:  {typ: revisionReady, artifact: true, build: custom04},
		lifecycle.TrafficShifted: {typ: trafficShifted, artifact: true, build: custom04},
		lifecycle.Upgraded:       {typ: v04.ServiceUpgradedEventType, artifact: true, build: upgraded04},
		lifecycle.RolledBack:     {typ: v04.ServiceRolledbackEventType, artifact: true, build: rolledBack04},
		lifecycle.Removed:        {typ: v04.ServiceRemovedEventType, build: removed04},

		lifecycle.IncidentDetected: {typ: v04.IncidentDetectedEventType, artifact: true, build: detected04},
		lifecycle.IncidentResolved: {typ: v04.IncidentResolvedEventType, artifact: true, build: resolved04},

		lifecycle.Judged: {typ: v04.TestCaseRunFinishedEventType, build: judged04},

		lifecycle.ClusterFormed:    {typ: clusterFormed, build: custom04},
		lifecycle.ClusterSettled:   {typ: clusterSettled, build: custom04},
		lifecycle.ClusterUnsettled: {typ: clusterUnsettled, build: custom04},
		lifecycle.ClusterRemoved:   {typ: clusterRemoved, build: custom04},
	},
}

// The custom events. Schema and SDKs disagree on what a name may be; lower-case
// letters with exactly one hyphen and versions of single digits satisfy all of
// them (CDEvents custom/schema.json).
var (
	created        = custom("knative", "service", "created")
	revisionReady  = custom("knative", "revision", "ready")
	trafficShifted = custom("knative", "traffic", "shifted")

	clusterFormed    = custom("stateful", "cluster", "formed")
	clusterSettled   = custom("stateful", "cluster", "settled")
	clusterUnsettled = custom("stateful", "cluster", "unsettled")
	clusterRemoved   = custom("stateful", "cluster", "removed")
)

func custom(name, subject, predicate string) api.CDEventType {
	return api.CDEventType{Custom: name, Subject: subject, Predicate: predicate, Version: "0.1.0"}
}

// Type is the type of the event that announces a transition, for example
// "dev.cdevents.service.deployed.0.3.0". An empty version is the default, 0.5.
func Type(specVersion string, t lifecycle.Type) (string, error) {
	f, err := lookup(specVersion, t)
	if err != nil {
		return "", err
	}
	return f.typ.String(), nil
}

// Types are those of all events, in the order of the alphabet. An empty version is the
// default, 0.5; one that is not spoken has none.
func Types(specVersion string) []string {
	var out []string
	for _, f := range table[version(specVersion)] {
		out = append(out, f.typ.String())
	}
	slices.Sort(out)
	return out
}

func lookup(specVersion string, t lifecycle.Type) (form, error) {
	forms, ok := table[version(specVersion)]
	if !ok {
		return form{}, fmt.Errorf("CDEvents version %q is not supported; it must be %q or %q", specVersion, Version05, Version04)
	}
	f, ok := forms[t]
	if !ok {
		return form{}, fmt.Errorf("no CDEvent of version %s announces a transition of type %q", version(specVersion), t)
	}
	return f, nil
}

func version(specVersion string) string {
	if specVersion == "" {
		return Version05
	}
	return specVersion
}
