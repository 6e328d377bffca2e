// SPDX-License-Identifier: Apache-2.0

package cdevents

import "github.com/cdevents/sdk-go/pkg/api"

// shared returns the context fields common to every version (CDEvents spec.md, REQUIRED Context
// Attributes). schemaUri stays unset: a receiver that cannot fetch the schema "SHOULD fail", and
// there is none to fetch.
func shared(f facts) api.SharedContext {
	return api.SharedContext{Id: f.id, Source: f.source, Type: f.typ, Timestamp: f.time}
}

// customContent is the content of our custom events. It has the fields of a service event, so that
// a receiver reads both the same way.
type customContent struct {
	Environment *api.Reference `json:"environment"`
	ArtifactID  string         `json:"artifactId,omitempty"`
}

func content(f facts) customContent {
	return customContent{Environment: f.environment, ArtifactID: f.artifact}
}
