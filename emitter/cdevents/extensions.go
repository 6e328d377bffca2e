// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// extensionTraceParent is defined by the Distributed Tracing extension of
// CloudEvents.
const extensionTraceParent = "traceparent"

// extensionPartitionKey is defined by the Partitioning extension of CloudEvents. Kafka's protocol binding
// makes it the key of the record, as Knative's KafkaSink and Kafka Broker do.
const extensionPartitionKey = "partitionkey"

// reserved lists CloudEvents' own attributes, which the CDEvents binding fixes, and "data", which
// would clash in a structured event.
var reserved = []string{
	"id", "source", "specversion", "type", "subject", "time", "datacontenttype", "dataschema", "data",
}

// extensions returns the CloudEvent's extension attributes: the partition key, which is the same for all
// events about one watched object, so that they stay in order, and the trace context, if a pipeline passed
// one on. ceOverrides overrides them.
func extensions(
	profile v1alpha1.Profile,
	subject v1alpha1.CDEventSubjectSpec,
	t lifecycle.Transition,
	n *notes,
) map[string]string {
	all := map[string]string{extensionPartitionKey: SubjectID(subject)}
	if parent := annotation(t, AnnotationTraceParent); parent != "" {
		if isTraceParent(parent) {
			all[extensionTraceParent] = parent
		} else {
			n.add(extensionTraceParent, "annotation %s left out: %q is not a traceparent of W3C Trace Context",
				AnnotationTraceParent, clip(parent))
		}
	}
	// Sorted: "A" and "a" are one attribute, and must give the same event each time.
	for _, key := range slices.Sorted(maps.Keys(profile.Extensions)) {
		// Knative allows upper-case letters, CloudEvents does not (spec.md, Attribute Naming
		// Convention), and its SDK folds them.
		name, value := strings.ToLower(key), strings.TrimSpace(profile.Extensions[key])
		if err := CheckExtension(name, value); err != nil {
			n.add(clip(key), "ceOverrides left out: %v", err)
			continue
		}
		all[name] = value
	}
	return all
}

// CheckExtension returns why a source cannot add an attribute with this name and value; nil if it can.
func CheckExtension(name, value string) error {
	switch value = strings.TrimSpace(value); {
	case slices.Contains(reserved, name):
		return errors.New("an attribute that CDEvents defines cannot be overridden")
	case !v1alpha1.IsAttribute(name):
		return errors.New("a name must consist of letters and digits")
	case value == "" || !printable(value):
		return errors.New("a value must not be empty or hold control characters")
	}
	return nil
}

// printable reports whether CloudEvents can carry s (spec.md, Type System, String), both in a
// header and in JSON.
func printable(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		nonCharacter := r&0xFFFE == 0xFFFE || 0xFDD0 <= r && r <= 0xFDEF
		return unicode.IsControl(r) || nonCharacter
	})
}

// traceParent matches version 00 of the header; later versions have no grammar yet (W3C Trace
// Context, traceparent Header Field Values).
var traceParent = regexp.MustCompile(`^00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$`)

func isTraceParent(s string) bool {
	m := traceParent.FindStringSubmatch(s)
	// All-zero ids are invalid.
	return m != nil && strings.Trim(m[1], "0") != "" && strings.Trim(m[2], "0") != ""
}
