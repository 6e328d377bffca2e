// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
)

// SinkAddress returns where to send the events of a source, nil if that is not known. The status has the address
// without credentials, because more people may read statuses, and show them to others; the spec has those in the
// query of a URI, as of a webhook.
func (s *CDEventSource) SinkAddress() *apis.URL {
	return withCredentials(s.Status.SinkURI, s.Spec.Sink.URI)
}

// DeadLetterSinkAddress returns the same for the dead letter sink.
func (s *CDEventSource) DeadLetterSinkAddress() *apis.URL {
	if s.Spec.Delivery == nil || s.Spec.Delivery.DeadLetterSink == nil {
		return s.Status.DeadLetterSinkURI
	}
	return withCredentials(s.Status.DeadLetterSinkURI, s.Spec.Delivery.DeadLetterSink.URI)
}

// withCredentials returns the address in a status with the credentials of the URI in the spec, which may be relative to
// the address of a reference.
func withCredentials(shown, given *apis.URL) *apis.URL {
	if shown == nil || given == nil {
		return shown
	}
	if whole := shown.ResolveReference(given); Shown(whole).String() == shown.String() {
		return whole
	}
	return shown // that of another spec, or of an earlier release
}

// Shown returns an address without credentials, as a status has it.
func Shown(u *apis.URL) *apis.URL {
	if u == nil {
		return nil
	}
	bare := sanitize.WithoutCredentials(u.String())
	if bare == u.String() {
		return u
	}
	shown, err := apis.ParseURL(bare)
	if err != nil { // it was a URL before the cut
		return &apis.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	}
	return shown
}
