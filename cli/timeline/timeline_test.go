// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

var at = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// TestEveryTypeHasWords checks that no event is shown by the name of a constant.
func TestEveryTypeHasWords(t *testing.T) {
	n := 0
	for _, file := range []string{"types.go", "environment.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), "../../lifecycle/"+file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			v, ok := node.(*ast.ValueSpec)
			if !ok || len(v.Values) == 0 {
				return true
			}
			if typ, ok := v.Type.(*ast.Ident); !ok || typ.Name != "Type" {
				return true
			}
			literal, ok := v.Values[0].(*ast.BasicLit)
			if !ok {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			n++
			kind := lifecycle.Type(text)
			for _, got := range []string{Text("cart", lifecycle.Transition{Type: kind}), brief(kind, "cart-00002"), Short(kind)} {
				if got == "" || got == text {
					t.Errorf("%s is shown as %q", kind, got)
				}
			}
			return true
		})
	}
	if n < 20 {
		t.Errorf("found only %d types", n)
	}
}

func TestText(t *testing.T) {
	one, two := &lifecycle.Revision{Name: "cart-00001"}, &lifecycle.Revision{Name: "cart-00002"}
	for _, c := range []struct {
		of   lifecycle.Transition
		want string
	}{
		{lifecycle.Transition{Type: lifecycle.Upgraded, Previous: one, Revision: two}, "all traffic moved from cart-00001 to the newer cart-00002"},
		{lifecycle.Transition{Type: lifecycle.RolledBack, Previous: two, Revision: one, Reason: lifecycle.ReasonWithdrawn}, "traffic moved back from cart-00002 to cart-00001: the canary was withdrawn"},
		{lifecycle.Transition{Type: lifecycle.TrafficShifted, Merged: 3, Traffic: []lifecycle.Share{{Revision: "cart-00001", Percent: 60}, {Revision: "cart-00002", Percent: 40}}}, "traffic is now 60 % cart-00001, 40 % cart-00002, after 3 more steps of one rollout"},
		{lifecycle.Transition{Type: lifecycle.Published, URLs: []string{"http://cart.example.com"}}, "cart is reachable at http://cart.example.com"},
		{lifecycle.Transition{Type: lifecycle.IncidentDetected, Incident: &lifecycle.IncidentDetails{Kind: lifecycle.Outage, Trouble: lifecycle.Trouble{Reason: "RouteMissing"}}}, "incident outage: RouteMissing"},
		{lifecycle.Transition{Type: lifecycle.IncidentResolved, Incident: &lifecycle.IncidentDetails{Kind: lifecycle.Outage}}, "incident outage is over"},
		{lifecycle.Transition{Type: lifecycle.Judged, Verdict: &lifecycle.Verdict{Gate: "cart", Canary: "cart-00002", Verdict: "Fail", Reasons: []string{"AbsoluteLimit"}}}, "gate cart judged cart-00002: Fail (AbsoluteLimit)"},
	} {
		if got := Text("cart", c.of); got != c.want {
			t.Errorf("%s: %q, want %q", c.of.Type, got, c.want)
		}
	}
}

// TestBrokenEntries shows that what cannot be read hides nothing else.
func TestBrokenEntries(t *testing.T) {
	s := &v1alpha1.CDEventSubject{ObjectMeta: metav1.ObjectMeta{Name: "service-1"}}
	s.Status.Sequence = 3
	s.Status.Acknowledged = map[types.UID]int64{"a": 2}
	for i, raw := range []string{"[]", `{"type": "ServiceCreated"}`, `{"type": "ServiceCreated"}`} {
		s.Status.Journal = append(s.Status.Journal, v1alpha1.JournalEntry{
			Sequence: int64(i + 2), Time: metav1.NewMicroTime(at), Type: "ServiceCreated", Transition: runtime.RawExtension{Raw: []byte(raw)},
			Recipients: []v1alpha1.Recipient{{Source: "a"}, {Source: "b"}},
		})
	}
	got, err := Of(s)
	if err != nil || len(got.Events) != 2 { // the third number is not one yet
		t.Fatalf("%v, %+v", err, got.Events)
	}
	if e := got.Events[0]; e.Text != "created, not ready yet" || len(e.PendingFor) != 1 || e.PendingFor[0] != "b" || len(e.AcknowledgedBy) != 1 {
		t.Errorf("%+v", e)
	}
	s.Status.Memory = "[]"
	if got, err := Of(s); err == nil || len(got.Events) != 2 {
		t.Errorf("with a memory that cannot be read: %v, %+v", err, got.Events)
	}
}

// TestUnreadableHistory shows that the rest of an entry is told.
func TestUnreadableHistory(t *testing.T) {
	last := metav1.NewMicroTime(at)
	s := &v1alpha1.CDEventSubject{Status: v1alpha1.CDEventSubjectStatus{
		Sequence: 5, LastEvent: string(lifecycle.TrafficShifted), LastEventTime: &last, History: "edited by hand",
	}}
	if got, err := Of(s); err == nil || len(got.Events) != 1 {
		t.Errorf("%v, %+v", err, got.Events)
	}
}

// TestLastSplit shows that the split after the newest event is known, even if the event is delivered.
func TestLastSplit(t *testing.T) {
	memory, err := json.Marshal(lifecycle.Memory{Traffic: []lifecycle.Share{{Revision: "cart-00001", Percent: 80}, {Revision: "cart-00002", Percent: 20}}})
	if err != nil {
		t.Fatal(err)
	}
	last := metav1.NewMicroTime(at)
	s := &v1alpha1.CDEventSubject{Status: v1alpha1.CDEventSubjectStatus{
		Sequence: 5, LastEvent: string(lifecycle.TrafficShifted), LastEventTime: &last, Memory: string(memory),
	}}
	got, err := Of(s)
	if err != nil || len(got.Events) != 1 || got.Events[0].Text != "traffic is now 80 % cart-00001, 20 % cart-00002" {
		t.Errorf("%v, %+v", err, got.Events)
	}
}

// TestIncidentThatIsNotOver shows what the ledger keeps of an incident.
func TestIncidentThatIsNotOver(t *testing.T) {
	memory, err := json.Marshal(lifecycle.Memory{Episodes: map[lifecycle.Incident]*lifecycle.Episode{
		lifecycle.Outage: {Detected: &lifecycle.TransitionRef{Sequence: 4, Time: at, Type: lifecycle.IncidentDetected}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := &v1alpha1.CDEventSubject{Status: v1alpha1.CDEventSubjectStatus{Sequence: 5, Memory: string(memory)}}
	got, err := Of(s)
	if err != nil || len(got.Events) != 1 || got.Events[0].Text != "incident outage: not over" || got.Events[0].Short() != "incident.detected" {
		t.Errorf("%v, %+v", err, got.Events)
	}
}

// TestHistory shows delivered events of each form, and those that an older controller did not keep.
func TestHistory(t *testing.T) {
	s := &v1alpha1.CDEventSubject{Spec: v1alpha1.CDEventSubjectSpec{Name: "cart"}}
	want := []string{}
	for _, c := range []struct {
		past v1alpha1.PastTransition
		want string
	}{
		{v1alpha1.PastTransition{Type: "ServicePublished", Names: []string{"http://a", "http://b"}}, "cart is reachable at http://a, http://b"},
		{v1alpha1.PastTransition{Type: "ServicePublished"}, "reachable from outside, or at other URLs"},
		{v1alpha1.PastTransition{Type: "TrafficShifted", Merged: 2, Traffic: []v1alpha1.PastShare{{Revision: "cart-00001", Percent: 90}, {Revision: "cart-00002", Percent: 10}}}, "traffic is now 90 % cart-00001, 10 % cart-00002, after 2 more steps of one rollout"},
		{v1alpha1.PastTransition{Type: "CanaryJudged", Gate: "cart", Verdict: "Fail", Reason: "Harmful, EntryErrors", Revision: "cart-00002"}, "gate cart judged cart-00002: Fail (Harmful, EntryErrors)"},
		{v1alpha1.PastTransition{Type: "ServiceRolledBack", Reason: "CanaryWithdrawn", Revision: "cart-00001", Previous: "cart-00002"}, "traffic moved back from cart-00002 to cart-00001: the canary was withdrawn"},
		{v1alpha1.PastTransition{Type: "IncidentDetected", Incident: "outage", Reason: "RouteMissing"}, "incident outage: RouteMissing"},
		{v1alpha1.PastTransition{Type: "IncidentResolved", Incident: "outage"}, "incident outage is over"},
		{v1alpha1.PastTransition{Type: "EnvironmentModified", Names: []string{"version"}}, "a change is in place: version"},
	} {
		s.Status.Sequence++
		c.past.Sequence, c.past.Time = s.Status.Sequence+10, metav1.NewMicroTime(at)
		line, err := json.Marshal(c.past)
		if err != nil {
			t.Fatal(err)
		}
		s.Status.History += string(line) + "\n"
		want = append(want, c.want)
	}
	s.Status.Sequence += 10
	got, err := Of(s)
	if err != nil || len(got.Events) != len(want) {
		t.Fatalf("%v, %+v", err, got.Events)
	}
	for i, e := range got.Events {
		if e.Text != want[i] || e.Sequence != int64(i+11) {
			t.Errorf("%d: %q, want %q", e.Sequence, e.Text, want[i])
		}
		if has := e.kind == lifecycle.TrafficShifted; has != (len(e.Split) > 0) {
			t.Errorf("%d: its split is %v", e.Sequence, e.Split)
		}
	}
}
