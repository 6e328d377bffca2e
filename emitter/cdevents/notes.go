package cdevents

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/cloudevents/sdk-go/v2/event"
)

// Note says that a field of the event is not what was asked for, and why.
type Note struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// maxNotes bounds what a hostile object can add to its own event.
const maxNotes = 16

// noted is how customData with notes is written. What users write cannot look like
// it, as their quotes are escaped.
var noted = []byte(`"notes":[{"field":"`)

// Incomplete says whether a rendered event lacks something, and says so in its notes.
func Incomplete(e event.Event) bool { return bytes.Contains(e.Data(), noted) }

// notes collects what is said of an event while it is rendered.
type notes []Note

func (n *notes) add(field, format string, args ...any) {
	if len(*n) < maxNotes {
		*n = append(*n, Note{Field: field, Message: fmt.Sprintf(format, args...)})
	}
}

// clip shortens a value that is only quoted, so that it cannot fill an event.
func clip(s string) string {
	const limit = 128
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
