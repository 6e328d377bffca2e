// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// SubjectID returns the subject id: "service/<namespace>/<name>". It is the same for all Revisions,
// because events "associated to the same subject MUST use the same subject id" (CDEvents spec.md,
// id (subject)); what changes is in customData.
func SubjectID(s v1alpha1.CDEventSubjectSpec) string {
	// Kubernetes names need no escaping. Escape anyway: a slash must not merge two subjects, nor a
	// line break reach a header.
	parts := []string{url.PathEscape(strings.ToLower(s.Kind))}
	if s.Namespace != "" {
		parts = append(parts, url.PathEscape(s.Namespace))
	}
	return strings.Join(append(parts, url.PathEscape(s.Name)), "/")
}

// ClusterID returns the subject id of a stateful cluster, "stateful-cluster/<namespace>/<name>",
// with the name of its Service.
func ClusterID(s v1alpha1.CDEventSubjectSpec) string {
	s.Kind = "stateful-cluster"
	return SubjectID(s)
}

// EnvironmentID returns the subject id of an environment: the given one, or
// "<kind>.<group>/<namespace>/<name>" if it is empty. Kinds of two groups may have the same name; the
// version takes no part, because an object keeps its id when its kind is served in another one.
func EnvironmentID(s v1alpha1.CDEventSubjectSpec, given string) string {
	if given != "" {
		return url.PathEscape(given)
	}
	s.Kind = schema.FromAPIVersionAndKind(s.APIVersion, s.Kind).GroupKind().String()
	return SubjectID(s)
}

// IncidentID returns the subject id of an incident: "incident/<namespace>/<name>/<kind>/<uuid>".
// Detection and resolution share it, and no other incident has it.
func IncidentID(s v1alpha1.CDEventSubjectSpec, i lifecycle.IncidentDetails) string {
	id := derive("incident", string(s.UID), string(i.Kind), strconv.FormatInt(i.Opened, 10),
		eventTime(i.Since).Format(time.RFC3339Nano))
	s.Kind = "incident"
	return SubjectID(s) + "/" + string(i.Kind) + "/" + id
}

// TestCaseRunID returns the subject id of a gate run: "testcaserun/<namespace>/<service>/<run>".
func TestCaseRunID(s v1alpha1.CDEventSubjectSpec, run string) string {
	s.Kind = "testcaserun"
	return SubjectID(s) + "/" + run
}

// testCaseID returns the id of the gate that a run belongs to, "canarygate/<namespace>/<name>". A run
// without a gate has the name of the Service.
func testCaseID(s v1alpha1.CDEventSubjectSpec, gate string) string {
	s.Kind = "canarygate"
	if gate != "" {
		s.Name = gate
	}
	return SubjectID(s)
}
