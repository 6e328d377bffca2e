// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// idNamespace is the namespace of all our UUIDs. It never changes.
var idNamespace = uuid.NewSHA1(uuid.NameSpaceDNS, []byte("knative-cdevents.dev"))

// ID returns the id of the event that announces the transition with this sequence number and time
// to a source with this profile. "Subsequent delivery attempts MAY share the same id" (CDEvents
// spec.md, id (context)): ours do, and nothing else does.
//
// Everything that shapes the bytes takes part, because two different events must not share an id.
// The time takes part because sequence numbers repeat after the cluster's store is restored from a
// backup.
func ID(profile v1alpha1.Profile, subject v1alpha1.CDEventSubjectSpec, sequence int64, at time.Time) string {
	parts := []string{
		"event",
		profile.Source,
		subject.Kind,
		string(subject.UID),
		strconv.FormatInt(sequence, 10),
		eventTime(at).Format(time.RFC3339Nano),
		version(profile.SpecVersion),
		profile.Environment.ID,
		profile.Environment.Source,
	}
	if profile.Replay != "" {
		// Extensions come in pairs, so none can look like this.
		parts = append(parts, "replay "+string(profile.Replay))
	}
	for _, name := range slices.Sorted(maps.Keys(profile.Extensions)) {
		parts = append(parts, name, profile.Extensions[name])
	}
	return derive(parts...)
}

// derive makes a version 5 UUID (RFC 9562). Each part is preceded by its length, so that no two
// lists of parts give the same text.
func derive(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(strconv.Itoa(len(p)))
		b.WriteByte(':')
		b.WriteString(p)
	}
	return uuid.NewSHA1(idNamespace, []byte(b.String())).String()
}
