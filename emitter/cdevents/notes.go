package cdevents

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/cloudevents/sdk-go/v2/event"
)

// Note says why a field of the event differs from what was asked for.
type Note struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// maxNotes bounds what a hostile object can add to its own event.
const maxNotes = 16

// notesPrefix is how the notes start in customData. Users cannot forge it, because their quotes are
// escaped.
var notesPrefix = []byte(`"notes":[{"field":"`)

// Incomplete reports whether a rendered event has notes about what it lacks.
func Incomplete(e event.Event) bool { return bytes.Contains(e.Data(), notesPrefix) }

// notes collects the notes while an event is rendered.
type notes []Note

func (n *notes) add(field, format string, args ...any) {
	if len(*n) < maxNotes {
		*n = append(*n, Note{Field: field, Message: fmt.Sprintf(format, args...)})
	}
}

// clip shortens a quoted value so that it cannot fill an event.
func clip(s string) string {
	const limit = 128
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
