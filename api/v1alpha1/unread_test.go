// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/tolerant"
)

// One bad item must not break a list, and each item reports what is wrong with it.
func TestOneBadObjectDoesNotBreakTheList(t *testing.T) {
	t.Parallel()
	var sources CDEventSourceList
	err := json.Unmarshal([]byte(`{"metadata":{"resourceVersion":"7"},"items":[
		{"metadata":{"name":"good"},"spec":{"sink":{"uri":"http://sink.example"},"filters":[{"all":[{"exact":{"type":"a"}}]}]}},
		{"metadata":{"name":"filter"},"spec":{"sink":{"uri":"http://sink.example"},"filters":[{"all":[{"exact":5}]}]}},
		{"metadata":{"name":"uri"},"spec":{"sink":{"uri":"http://[::1"},"selector":{"matchLabels":{"a":"b"}}}}]}`), &sources)
	if err != nil || len(sources.Items) != 3 || sources.ResourceVersion != "7" {
		t.Fatalf("%+v, %v", sources, err)
	}
	good, filter, uri := sources.Items[0], sources.Items[1], sources.Items[2]
	if len(good.Unread) > 0 || good.Spec.Filters[0].All[0].Exact["type"] != "a" || good.Name != "good" {
		t.Errorf("%+v", good)
	}
	if len(filter.Unread) != 1 || filter.Unread[0].Path != "spec.filters[0].all[0].exact" || filter.Spec.Sink.URI.String() != "http://sink.example" {
		t.Errorf("%+v", filter)
	}
	if len(uri.Unread) != 1 || uri.Unread[0].Path != "spec.sink.uri" || uri.Spec.Selector.MatchLabels["a"] != "b" || uri.Name != "uri" {
		t.Errorf("%+v", uri)
	}
	if copied := uri.DeepCopy(); len(copied.Unread) != 1 {
		t.Error("DeepCopy lost Unread")
	}

	var gates CanaryGateList
	err = json.Unmarshal([]byte(`{"items":[{"metadata":{"name":"a"},"spec":{"service":"cart","schedule":{"timeout":"soon","interval":"30s"}}},{"metadata":{"name":"b"},"spec":{"service":"cart"}}]}`), &gates)
	if err != nil || len(gates.Items) != 2 || gates.Items[0].Spec.Schedule.Interval == nil {
		t.Fatalf("%+v, %v", gates, err)
	}
	if err := gates.Items[0].Validate(t.Context()); err == nil || !pathsOf(err)["spec.schedule.timeout"] {
		t.Errorf("%v", err)
	}
	if err := gates.Items[1].Validate(t.Context()); err != nil {
		t.Error(err)
	}
}

// A misspelled field of a nested filter, which the API server stores, must not make the filter pass more than was meant.
func TestUnknownFieldsOfFilters(t *testing.T) {
	t.Parallel()
	const right = `{"exact":{"type":"a","Type":"b"}}`
	for filters, want := range map[string]string{
		`[` + right + `]`: "",
		`[{"any":[` + right + `,{"not":{"all":[` + right + `]}}]}]`:           "",
		`[{"any":[` + right + `,{"exact":{"type":"a"},"Prefix":{"a":"b"}}]}]`: "spec.filters[0].any[1].Prefix is not a field of a filter; use one of exact,",
		`[` + right + `,{"not":{"not":{"exakt":null,"cesql":"TRUE"}}}]`:       "spec.filters[1].not.not.exakt is not a field",
		`[{"not":{"cesql":"TRUE","` + strings.Repeat("a", 300) + `":1}}]`:     "spec.filters[0] contains a field that no filter has; use one of exact,",
	} {
		var s CDEventSource
		err := json.Unmarshal([]byte(`{"metadata":{"name":"a"},"spec":{"sink":{"uri":"http://sink"},"more":1,"filters":`+filters+`},"status":{"more":1}}`), &s)
		if err != nil {
			t.Fatal(err)
		}
		if want == "" && len(s.Unread) > 0 || want != "" && (len(s.Unread) != 1 || !strings.HasPrefix(s.Unread[0].Error(), want)) {
			t.Errorf("%s: %v, want %q", filters, s.Unread, want)
		}
	}
	// Whatever else cannot be read.
	var broken CDEventSource
	err := json.Unmarshal([]byte(`{"spec":{"replay":5,"filters":[{"exact":5},{"not":{"exakt":{"type":"a"}}}]},"status":{"pending":"many"}}`), &broken)
	if err != nil || len(broken.Unread) != 4 || UnreadIn(broken.Unread, "spec.filters[1].not.exakt") == nil {
		t.Errorf("%v, %v", broken.Unread, err)
	}
	var s CDEventSource
	err = json.Unmarshal([]byte(`{"spec":{"filters":[{"not":{"a":1,"b":2,"c":3,"d":4,"e":5}}]}}`), &s)
	if err != nil || len(s.Unread) != maxUnknown {
		t.Errorf("%v, %v", s.Unread, err)
	}
}

func pathsOf(err *apis.FieldError) map[string]bool {
	out := map[string]bool{}
	for _, e := range err.WrappedErrors() {
		for _, p := range e.Paths {
			out[p] = true
		}
	}
	for _, p := range err.Paths {
		out[p] = true
	}
	return out
}

// A journal is read entry by entry. An entry with only a wrong time is sent with the time of its
// transition; the reader of the journal drops any other.
func TestUnreadableJournalEntries(t *testing.T) {
	t.Parallel()
	var s CDEventSubject
	err := json.Unmarshal([]byte(`{"metadata":{"name":"service-u"},"spec":{"kind":"Service","name":"cart"},"status":{"pending":3,"oldestPending":"2026-05-04T12:00:00Z","journal":[
		{"sequence":1,"time":"2026-05-04T12:00:00.000000Z","type":"a","transition":{"sequence":1},"recipients":[{"source":"u","profile":"p"}]},
		{"sequence":2,"time":"2026-05-04T12:00:00Z","type":"b","transition":{"sequence":2,"time":"2026-05-04T12:00:00Z"},"recipients":[{"source":"u","profile":"p"}]},
		{"sequence":3,"time":"2026-05-04T12:00:00.000000Z","type":{"c":1},"transition":{"sequence":3},"recipients":[{"source":"u","profile":"p"}]}]}}`), &s)
	if err != nil || len(s.Status.Journal) != 3 || s.Name != "service-u" || s.Status.Pending != 3 {
		t.Fatalf("%+v, %v", s, err)
	}
	if len(s.Unread) != 1 || s.Unread[0].Path != "status.oldestPending" {
		t.Errorf("%+v", s.Unread)
	}
	for i, readable := range []bool{true, true, false} {
		j := s.Status.Journal[i]
		var is struct{ Sequence int64 }
		if err := json.Unmarshal(j.Transition.Raw, &is); (err == nil) != readable || j.Sequence != int64(i+1) || len(j.Recipients) != 1 || j.Recipients[0].Source != "u" {
			t.Errorf("%d: %+v, %v", i+1, j, err)
		}
		if !j.Time.Equal(&s.Status.Journal[0].Time) && !j.Time.Time.Equal(time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)) {
			t.Errorf("%d: %v", i+1, j.Time)
		}
	}
	if raw, err := json.Marshal(s); err != nil || !json.Valid(raw) {
		t.Errorf("%s, %v", raw, err)
	}
}

func TestUnreadIn(t *testing.T) {
	t.Parallel()
	problems := []tolerant.FieldError{{Path: "spec.sink.uri"}, {Path: "spec.filters[0].all"}}
	for field, want := range map[string]bool{
		"spec": true, "spec.sink": true, "spec.sink.uri": true, "spec.filters": true, "spec.filters[0].all[1]": true,
		"spec.filter": false, "spec.sinks": false, "status": false, "spec.sink.ref": false,
	} {
		if got := UnreadIn(problems, field); (got != nil) != want {
			t.Errorf("%s: %v", field, got)
		}
	}
}
