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

// TestWhatCannotBeReadHasItsTurn: before and after what can be read.
func TestWhatCannotBeReadHasItsTurn(t *testing.T) {
	for name, spoil := range map[string]func(*v1alpha1.CDEventSubjectStatus){
		"another shape":     func(st *v1alpha1.CDEventSubjectStatus) { st.Journal[1].Transition.Raw = []byte(`{"sequence":"two"}`) },
		"another number":    func(st *v1alpha1.CDEventSubjectStatus) { st.Journal[1].Transition.Raw = []byte(`{"sequence":7}`) },
		"a form is missing": func(st *v1alpha1.CDEventSubjectStatus) { st.Journal[1].Recipients[0].Profile = "gone" },
	} {
		t.Run(name, func(t *testing.T) {
			s := store.New()
			l := ledger.New(s, everyone{"a"}, &counts{})
			for _, typ := range []lifecycle.Type{lifecycle.Created, lifecycle.Deployed, lifecycle.Published} {
				must(t, add(l, typ, ""))
			}
			o := s.All()[0]
			spoil(&o.Status)
			o, err := s.Update(context.Background(), o, metav1.UpdateOptions{})
			must(t, err)
			l.Observe(o)
			owed := l.Pending(key, "a")
			if got := sequences(owed); got != "1 2 3" {
				t.Fatalf("owed %s", got)
			}
			if got := fmt.Sprint(owed[0].Unreadable != nil, owed[1].Unreadable != nil, owed[2].Unreadable != nil); got != "false true false" {
				t.Errorf("unreadable: %s", got)
			}
			if owed[1].Transition.Type != lifecycle.Deployed || owed[1].Transition.Time.IsZero() {
				t.Errorf("of the unreadable one is known: %+v", owed[1].Transition)
			}
		})
	}
}

// An entry without a number has no turn, and is not dropped without a word.
func TestAnEntryWithoutANumberIsCounted(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(string) string
		owed  string
		lost  int64
	}{
		"its transition has one": {func(raw string) string {
			return strings.Replace(raw, `"sequence":2,"time"`, `"sequence":"2","time"`, 1)
		}, "1 2 3", 0},
		"nobody is told": {func(raw string) string {
			i := strings.LastIndex(raw, `"source":"a"`)
			return raw[:i] + `"source":5` + raw[i+len(`"source":"a"`):]
		}, "1 2", 1},
		"nor has its transition": {func(raw string) string { return strings.ReplaceAll(raw, `"sequence":2,`, `"sequence":"2",`) }, "1 3", 1},
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
			spoilt := c.spoil(string(raw))
			if spoilt == string(raw) {
				t.Fatalf("not spoilt: %s", raw)
			}
			o := &v1alpha1.CDEventSubject{}
			must(t, json.Unmarshal([]byte(spoilt), o))
			o, err = s.Update(context.Background(), o, metav1.UpdateOptions{})
			must(t, err)
			l.Observe(o)
			owed := l.Pending(key, "a")
			if got := sequences(owed); got != c.owed {
				t.Errorf("owed %q, want %q", got, c.owed)
			}
			for _, o := range owed {
				if o.Unreadable != nil {
					t.Error(o.Unreadable)
				}
			}
			must(t, add(l, lifecycle.Upgraded, ""))
			if got := s.All()[0].Status.Dropped[ledger.DroppedUnreadable]; got != c.lost || counted.dropped[ledger.DroppedUnreadable] != c.lost {
				t.Errorf("%d shown, %d counted, want %d", got, counted.dropped[ledger.DroppedUnreadable], c.lost)
			}
		})
	}
}
