// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"fmt"
	"slices"

	"github.com/cdevents/sdk-go/pkg/api"
	v04 "github.com/cdevents/sdk-go/pkg/api/v04"
	v05 "github.com/cdevents/sdk-go/pkg/api/v05"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// The supported versions of the CDEvents specification, as written in a profile. The events say
// "0.5.1" and "0.4.1".
const (
	Version05 = "0.5"
	Version04 = "0.4"
)

// row describes one type of transition. A new type needs a row here, a builder for its data if none
// fits, and a section in docs/events.md. Tests compare that page, the schemas and the CRD's list of
// event types with this table.
type row struct {
	// artifact says that the subject's content names the artifact.
	artifact bool
	// forms are its event types, by version of the specification. Receivers of an older version
	// will remain when the vocabulary grows.
	forms map[string]form
	// sample adds the fields that only this type requires; may be nil.
	sample func(*lifecycle.Transition)
}

// form is the event type of a transition in one version of the specification.
type form struct {
	// typ is the event type, with its own version.
	typ api.CDEventType
	// build puts the values into the structure of that type.
	build func(facts) api.CDEventReader
}

// forms returns one form for each version.
func forms(in05, in04 form) map[string]form { return map[string]form{Version05: in05, Version04: in04} }

// customForms returns the forms of an event that the specification does not define.
func customForms(typ api.CDEventType) map[string]form {
	return forms(form{typ, custom05}, form{typ, custom04})
}

// table is the only place that maps transitions to event types.
var table = map[lifecycle.Type]row{
	lifecycle.Created: {forms: customForms(created)},
	lifecycle.Deployed: {
		artifact: true,
		forms:    forms(form{v05.ServiceDeployedEventType, deployed05}, form{v04.ServiceDeployedEventType, deployed04}),
	},
	lifecycle.Published: {
		forms: forms(form{v05.ServicePublishedEventType, published05}, form{v04.ServicePublishedEventType, published04}),
	},
	lifecycle.RevisionReady:  {artifact: true, forms: customForms(revisionReady)},
	lifecycle.TrafficShifted: {artifact: true, forms: customForms(trafficShifted)},
	lifecycle.Upgraded: {
		artifact: true,
		forms:    forms(form{v05.ServiceUpgradedEventType, upgraded05}, form{v04.ServiceUpgradedEventType, upgraded04}),
	},
	lifecycle.RolledBack: {
		artifact: true, forms: forms(form{v05.ServiceRolledbackEventType, rolledBack05},
			form{v04.ServiceRolledbackEventType, rolledBack04}),
	},
	lifecycle.Removed: {
		forms: forms(form{v05.ServiceRemovedEventType, removed05}, form{v04.ServiceRemovedEventType, removed04}),
	},

	lifecycle.IncidentDetected: {
		artifact: true, sample: withIncident,
		forms: forms(form{v05.IncidentDetectedEventType, detected05}, form{v04.IncidentDetectedEventType, detected04}),
	},
	lifecycle.IncidentResolved: {
		artifact: true, sample: withIncident,
		forms: forms(form{v05.IncidentResolvedEventType, resolved05}, form{v04.IncidentResolvedEventType, resolved04}),
	},

	lifecycle.Judged: {
		sample: withVerdict,
		forms:  forms(form{v05.TestCaseRunFinishedEventType, judged05}, form{v04.TestCaseRunFinishedEventType, judged04}),
	},

	lifecycle.ClusterFormed:     {sample: withCluster, forms: customForms(clusterFormed)},
	lifecycle.ClusterSettled:    {sample: withCluster, forms: customForms(clusterSettled)},
	lifecycle.ClusterUnsettled:  {sample: withCluster, forms: customForms(clusterUnsettled)},
	lifecycle.ClusterRebalanced: {sample: withCluster, forms: customForms(clusterRebalanced)},
	lifecycle.ClusterRemoved:    {sample: withCluster, forms: customForms(clusterRemoved)},

	lifecycle.ClusterAPIClusterCreated: {sample: withEnvironment, forms: customForms(clusterAPICreated)},
	lifecycle.CrossplaneClusterCreated: {sample: withEnvironment, forms: customForms(crossplaneCreated)},
	lifecycle.EnvironmentCreated: {
		sample: withEnvironment,
		forms: forms(form{v05.EnvironmentCreatedEventType, environmentCreated05},
			form{v04.EnvironmentCreatedEventType, environmentCreated04}),
	},
	lifecycle.EnvironmentModified: {
		sample: withEnvironment,
		forms: forms(form{v05.EnvironmentModifiedEventType, environmentModified05},
			form{v04.EnvironmentModifiedEventType, environmentModified04}),
	},
	lifecycle.EnvironmentDeleted: {
		sample: withEnvironment,
		forms: forms(form{v05.EnvironmentDeletedEventType, environmentDeleted05},
			form{v04.EnvironmentDeletedEventType, environmentDeleted04}),
	},
}

// The custom events. Schema and SDKs disagree on valid names; lower-case letters with exactly one
// hyphen and single-digit versions satisfy all of them (CDEvents custom/schema.json).
var (
	created        = custom("knative", "service", "created")
	revisionReady  = custom("knative", "revision", "ready")
	trafficShifted = custom("knative", "traffic", "shifted")

	clusterFormed     = custom("stateful", "cluster", "formed")
	clusterSettled    = custom("stateful", "cluster", "settled")
	clusterUnsettled  = custom("stateful", "cluster", "unsettled")
	clusterRebalanced = custom("stateful", "cluster", "rebalanced")
	clusterRemoved    = custom("stateful", "cluster", "removed")

	clusterAPICreated = custom("clusterapi", "cluster", "created")
	crossplaneCreated = custom("crossplane", "cluster", "created")
)

func custom(name, subject, predicate string) api.CDEventType {
	return api.CDEventType{Custom: name, Subject: subject, Predicate: predicate, Version: "0.1.0"}
}

// Type returns the type of the event that announces a transition, for example
// "dev.cdevents.service.deployed.0.3.0". An empty version is the default, 0.5.
func Type(specVersion string, t lifecycle.Type) (string, error) {
	_, f, err := lookup(specVersion, t)
	if err != nil {
		return "", err
	}
	return f.typ.String(), nil
}

// Types returns all event types in alphabetical order. An empty version is the default, 0.5; an
// unsupported one has none.
func Types(specVersion string) []string {
	var out []string
	for _, r := range table {
		if f, ok := r.forms[version(specVersion)]; ok {
			out = append(out, f.typ.String())
		}
	}
	slices.Sort(out)
	return out
}

func lookup(specVersion string, t lifecycle.Type) (row, form, error) {
	v := version(specVersion)
	if v != Version05 && v != Version04 {
		return row{}, form{}, fmt.Errorf("CDEvents version %q is not supported; it must be %q or %q", specVersion, Version05,
			Version04)
	}
	r := table[t]
	f, ok := r.forms[v]
	if !ok {
		return row{}, form{}, fmt.Errorf("no CDEvent of version %s announces a transition of type %q", v, t)
	}
	return r, f, nil
}

func version(specVersion string) string {
	if specVersion == "" {
		return Version05
	}
	return specVersion
}
