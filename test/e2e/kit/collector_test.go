// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestCollectedSpans(t *testing.T) {
	t.Parallel()
	c := &Collector{traces: map[string][]Span{}}
	for _, sent := range []string{
		`{"resourceSpans": [{"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "knative-cdevents"}}, {"key": "k8s.pod.name", "value": {"stringValue": "controller-a"}}]},
			"scopeSpans": [{"scope": {}, "spans": [{"traceId": "0a", "spanId": "2", "parentSpanId": "1", "name": "gate cart", "kind": 1, "startTimeUnixNano": "2000000000", "endTimeUnixNano": "2500000000",
				"attributes": [{"key": "kn.service.name", "value": {"stringValue": "cart"}}], "status": {"message": "Fail", "code": 2}}]}]}]}`,
		`{"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"spans": [{"traceId": "0a", "spanId": "1", "parentSpanId": "", "name": "rollout", "startTimeUnixNano": "1000000000",
			"endTimeUnixNano": "4000000000", "attributes": [], "status": {}}, {"traceId": "0b", "spanId": "3", "name": "other", "status": {}}]}]}]}`,
	} {
		c.store(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/traces", strings.NewReader(sent)))
	}
	got, err := c.Traces("knative-cdevents", map[string]string{"kn.service.name": "cart"})
	want := map[string][]Span{"0a": {
		{ID: "1", Name: "rollout", Start: time.Unix(1, 0), End: time.Unix(4, 0), Tags: map[string]string{}},
		{
			ID: "2", Parent: "1", Name: "gate cart", Service: "knative-cdevents", Replica: "controller-a", Start: time.Unix(2, 0), End: time.Unix(2, 5e8), Failed: true,
			Tags: map[string]string{"kn.service.name": "cart"},
		},
	}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v (%v)", got, err)
	}
}
