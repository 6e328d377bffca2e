// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"github.com/cloudevents/sdk-go/v2/event"
	"knative.dev/eventing/pkg/kncloudevents/attributes"

	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
)

// DeadLetter returns a copy of the event for the dead letter sink. Knative's extensions in
// it say which sink refused the event, and why.
func DeadLetter(ev event.Event, refusedBy Target, out Outcome) event.Event {
	letter := ev.Clone()
	letter.SetExtension(attributes.KnativeErrorDestExtensionKey, refusedBy.String())
	if out.Status != 0 {
		letter.SetExtension(attributes.KnativeErrorCodeExtensionKey, out.Status)
	}
	if out.Err != nil {
		letter.SetExtension(attributes.KnativeErrorDataExtensionKey,
			sanitize.Truncate(out.Err.Error(), attributes.KnativeErrorDataExtensionMaxLength-len("…")))
	}
	return letter
}
