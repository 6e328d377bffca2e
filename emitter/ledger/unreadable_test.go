// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// An unreadable entry is returned in order, between the readable ones.
func TestUnreadableEntryKeepsItsPlace(t *testing.T) {
	for name, corrupt := range map[string]func(*v1alpha1.CDEventSubjectStatus){
		"wrong type":        func(st *v1alpha1.CDEventSubjectStatus) { st.Journal[1].Transition.Raw = []byte(`{"sequence":"two"}`) },
		"wrong number":      func(st *v1alpha1.CDEventSubjectStatus) { st.Journal[1].Transition.Raw = []byte(`{"sequence":7}`) },
		"a form is missing": func(st *v1alpha1.CDEventSubjectStatus) { st.Journal[1].Recipients[0].Profile = "gone" },
	} {
		t.Run(name, func(t *testing.T) {
			s := store.New()
			l := ledger.New(s, everyone{"a"}, &counts{})
			for _, typ := range []lifecycle.Type{lifecycle.Created, lifecycle.Deployed, lifecycle.Published} {
				must(t, add(l, typ, ""))
			}
			o := s.All()[0]
			corrupt(&o.Status)
			o, err := s.Update(context.Background(), o, metav1.UpdateOptions{})
			must(t, err)
			l.Observe(o)
			pending := l.Pending(key, "a")
			if got := sequences(pending); got != "1 2 3" {
				t.Fatalf("pending %s", got)
			}
			if got := fmt.Sprint(pending[0].Unreadable != nil, pending[1].Unreadable != nil, pending[2].Unreadable != nil); got != "false true false" {
				t.Errorf("unreadable: %s", got)
			}
			if pending[1].Transition.Type != lifecycle.Deployed || pending[1].Transition.Time.IsZero() {
				t.Errorf("type and time of the unreadable entry: %+v", pending[1].Transition)
			}
		})
	}
}

// An entry without a sequence number cannot be sent in order. Dropping it is counted.
func TestEntryWithoutSequenceNumberIsCounted(t *testing.T) {
	for name, c := range map[string]struct {
		corrupt func(string) string
		pending string
		lost    int64
	}{
		"its transition has a number": {func(raw string) string {
			return strings.Replace(raw, `"sequence":2,"time"`, `"sequence":"2","time"`, 1)
		}, "1 2 3", 0},
		"it has no recipient": {func(raw string) string {
			i := strings.LastIndex(raw, `"source":"a"`)
			return raw[:i] + `"source":5` + raw[i+len(`"source":"a"`):]
		}, "1 2", 1},
		"its transition has none either": {func(raw string) string { return strings.ReplaceAll(raw, `"sequence":2,`, `"sequence":"2",`) }, "1 3", 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := store.New()
			counted := &counts{}
			l := ledger.New(s, everyone{"a"}, counted)
			for range 3 {
				must(t, add(l, lifecycle.Upgraded, ""))
			}
			raw, err := json.Marshal(s.All()[0])
			must(t, err)
			corrupted := c.corrupt(string(raw))
			if corrupted == string(raw) {
				t.Fatalf("not changed: %s", raw)
			}
			o := &v1alpha1.CDEventSubject{}
			must(t, json.Unmarshal([]byte(corrupted), o))
			o, err = s.Update(context.Background(), o, metav1.UpdateOptions{})
			must(t, err)
			l.Observe(o)
			pending := l.Pending(key, "a")
			if got := sequences(pending); got != c.pending {
				t.Errorf("pending %q, want %q", got, c.pending)
			}
			for _, o := range pending {
				if o.Unreadable != nil {
					t.Error(o.Unreadable)
				}
			}
			must(t, add(l, lifecycle.Upgraded, ""))
			if got := s.All()[0].Status.Dropped[ledger.DroppedUnreadable]; got != c.lost || counted.dropped[ledger.DroppedUnreadable] != c.lost {
				t.Errorf("dropped %d in the status, %d in the metric, want %d", got, counted.dropped[ledger.DroppedUnreadable], c.lost)
			}
		})
	}
}
