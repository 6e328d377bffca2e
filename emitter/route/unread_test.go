// SPDX-License-Identifier: Apache-2.0

package route

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// Only some errors in a spec are listed. An invalid selector must still be detected, or it
// would select everything.
func TestManyErrorsDoNotHideTheSelectorError(t *testing.T) {
	for _, selector := range []string{`{"matchLabels":5}`, `5`, `{"matchExpressions":[{"key":5}]}`} {
		spec := `{"metadata":{"name":"a","namespace":"shop","uid":"u"},"spec":{"sink":{"uri":"http://x"},"filters":[` +
			strings.Repeat(`{"exact":5},`, 19) + `{"exact":5}],"selector":` + selector + `}}`
		var s v1alpha1.CDEventSource
		if err := json.Unmarshal([]byte(spec), &s); err != nil {
			t.Fatal(err)
		}
		if ok, err := (&Router{}).selects(&s, "shop", ledger.Labels{Own: map[string]string{"x": "y"}}); err == nil {
			t.Errorf("selector %s: selects everything (%t), %d errors listed", selector, ok, len(s.Unread))
		}
		if len(s.Unread) > 20 {
			t.Errorf("%d errors listed", len(s.Unread))
		}
	}
}
