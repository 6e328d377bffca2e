// SPDX-License-Identifier: Apache-2.0

// Package cdevents renders a transition of the lifecycle as a CDEvent, carried by a CloudEvent.
//
// It is pure: the same journaled transition and the same profile always give the same bytes. It
// reads no clock, cluster, environment or source of randomness, so an event can be sent again, or
// by another replica, and a receiver recognizes it by its id. The files in testdata hold those
// bytes; when they change, receivers see it. An event that an older release journaled keeps its
// bytes: the journal names the version of the rendering, and no version ever changes.
//
// A value that the specifications forbid is handled by its origin. What users write on their
// Services and sources (images, annotations, an environment, ceOverrides) never costs an event: the
// event is sent without the value, or with the documented fallback, and customData.notes says so.
// What only this program can get wrong (an unknown type or version, a source that is not an
// absolute URI, no time) is an error.
package cdevents
