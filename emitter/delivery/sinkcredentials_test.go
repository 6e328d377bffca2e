// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"testing"

	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// The status of a source hides the credentials of its URI. Its sink gets them all the same.
func TestSinksGetTheCredentialsThatStatusesHide(t *testing.T) {
	t.Parallel()
	uri, err := apis.ParseURL("https://hook.example/?token=t0ken")
	if err != nil {
		t.Fatal(err)
	}
	s := sourceTo("hooked", "")
	s.Spec.Sink.URI, s.Status.SinkURI = uri, v1alpha1.Shown(uri)
	if to, ok := sinkOf(s); !ok || to.URL != uri.String() {
		t.Errorf("events go to %s", to.URL)
	}
	rotated := s.DeepCopy()
	rotated.Spec.Sink.URI.RawQuery = "token=an0ther"
	if !sinkChanged(s, rotated) {
		t.Error("a rotated token does not count as a change, so an open circuit breaker stays open")
	}
}
