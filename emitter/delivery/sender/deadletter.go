package sender

import (
	"unicode/utf8"

	"github.com/cloudevents/sdk-go/v2/event"
	"knative.dev/eventing/pkg/kncloudevents/attributes"
)

// DeadLetter is the event with Knative's extensions that say which sink would
// not have it and why, for sending to the dead letter sink. The event itself is
// not changed.
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

// shorten cuts between characters, never within one.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
