package cdevents

import (
	"fmt"
	"strings"
)

// Note says that a field of the event is not what was asked for, and why.
type Note struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// maxNotes bounds what a hostile object can add to its own event.
const maxNotes = 16

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
