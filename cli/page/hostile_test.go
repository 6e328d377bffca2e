// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/fleet"
)

// What a hostile user writes reaches the browser visible, in its own order, and without secrets.
func (c *cluster) hostile(t *testing.T, page string) {
	t.Helper()
	const text = "bad\x1b[2J\u009b31m\u202egnp.exe\u200b https://ci:s3cret@git.example.com/?token=s3cret"
	c.AddSource(t, fleet.Shop, "hostile", "missing", v1alpha1.CDEventSourceStatus{}, fleet.Broken{Type: v1alpha1.SourceConditionSinkProvided, Reason: "Broken", Message: text})
	from := stream(t, page+"live")
	for from.Scan() {
		raw, is := strings.CutPrefix(from.Text(), "data: ")
		if !is || !strings.Contains(raw, "gnp.exe") {
			continue
		}
		var data any
		if err := json.Unmarshal([]byte(raw), &data); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(raw, "s3cret") || !strings.Contains(raw, `bad\\x1b[2J\\u009b31m\\u202egnp.exe\\u200b https://git.example.com/?token=REDACTED`) {
			t.Errorf("the page gets %s", raw)
		}
		eachText(data, func(s string) {
			if strings.ContainsFunc(s, func(r rune) bool { return r != '\n' && !unicode.IsGraphic(r) }) {
				t.Errorf("the page gets %q", s)
			}
		})
		return
	}
	t.Fatal(from.Err())
}

// eachText calls visit for each text in what was decoded from JSON.
func eachText(v any, visit func(string)) {
	switch t := v.(type) {
	case string:
		visit(t)
	case []any:
		for _, e := range t {
			eachText(e, visit)
		}
	case map[string]any:
		for k, e := range t {
			visit(k)
			eachText(e, visit)
		}
	}
}
