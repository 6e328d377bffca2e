// Package cdevents renders a transition of the lifecycle as a CDEvent, carried
// by a CloudEvent.
//
// It is pure: the same journaled transition and the same profile give the same
// bytes, always. Nothing is read from a clock, a cluster, the environment or a
// source of randomness, so that an event can be sent again, or by another
// replica, and a receiver can tell by its id that it is the same one. The files
// in testdata hold those bytes; a change of them is a change that receivers
// see. An event that an older release journaled keeps its bytes: the journal
// names the version of the rendering, and each version stays as it was.
//
// Who is to blame decides what becomes of a value that the specifications
// forbid. What users write on their Services and sources (images, annotations,
// an environment, ceOverrides) never costs an event: the event is sent without
// the value, or with the documented fallback, and customData.notes says so. What
// only this program can get wrong (an unknown type or version, a source that is
// no absolute URI, no time) is an error.
package cdevents
