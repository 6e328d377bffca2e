// SPDX-License-Identifier: Apache-2.0

package screen

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
)

// Foreign returns what somebody else wrote, as it may be shown on one line: everything visible, and without
// credentials. All that a command or the page shows passes through it or Values.
func Foreign(s string) string { return sanitize.Visible(sanitize.WithoutCredentials(s)) }

// Args returns the arguments of a format. Texts in them, and what has a text, are foreign, apart from Painted.
func Args(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		switch t := a.(type) {
		case Painted:
			out[i] = string(t)
		case string:
			out[i] = Foreign(t)
		case error:
			out[i] = Foreign(t.Error())
		case fmt.Stringer:
			out[i] = Foreign(t.String())
		default:
			out[i] = a
		}
	}
	return out
}

// Values returns a value as JSON has it, with all texts in it as they may be shown. Texts may have several lines.
func Values(v any) (any, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("writing the result: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber() // as they are
	var out any
	if err := decoder.Decode(&out); err != nil {
		return nil, fmt.Errorf("writing the result: %w", err)
	}
	return values(out), nil
}

func values(v any) any {
	switch t := v.(type) {
	case string:
		return sanitize.VisibleLines(sanitize.WithoutCredentials(t))
	case []any:
		for i := range t {
			t[i] = values(t[i])
		}
	case map[string]any:
		out := make(map[string]any, len(t))
		for k, v := range t {
			out[Foreign(k)] = values(v)
		}
		return out
	}
	return v
}
