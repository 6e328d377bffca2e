package delivery

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// More mistakes than are named must not hide that a selector lacks something: it would
// choose everything.
func TestManyMistakesDoNotHideTheOneInTheSelector(t *testing.T) {
	for _, selector := range []string{`{"matchLabels":5}`, `5`, `{"matchExpressions":[{"key":5}]}`} {
		spec := `{"metadata":{"name":"a","namespace":"shop","uid":"u"},"spec":{"sink":{"uri":"http://x"},"filters":[` +
			strings.Repeat(`{"exact":5},`, 19) + `{"exact":5}],"selector":` + selector + `}}`
		var s v1alpha1.CDEventSource
		if err := json.Unmarshal([]byte(spec), &s); err != nil {
			t.Fatal(err)
		}
		if ok, err := (&Router{}).selects(&s, "shop", ledger.Labels{Own: map[string]string{"x": "y"}}); err == nil {
			t.Errorf("selector %s: selects everything (%t), %d mistakes named", selector, ok, len(s.Unread))
		}
		if len(s.Unread) > 20 {
			t.Errorf("%d mistakes are named", len(s.Unread))
		}
	}
}
