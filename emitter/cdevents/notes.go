// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"fmt"

	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
)

// Note says why a field of the event differs from what was asked for.
type Note struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// maxNotes bounds what a hostile object can add to its own event.
const maxNotes = 16

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
	return sanitize.Truncate(s, limit)
}
