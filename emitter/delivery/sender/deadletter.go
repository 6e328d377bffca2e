package sender

import (
	"unicode/utf8"

	"github.com/cloudevents/sdk-go/v2/event"
	"knative.dev/eventing/pkg/kncloudevents/attributes"
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
			shorten(out.Err.Error(), attributes.KnativeErrorDataExtensionMaxLength))
	}
	return letter
}

// shorten cuts a text between characters, never within one.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
