// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/dora"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// written is an event as a receiver reads it.
type written struct {
	Context struct {
		ID, ChainID string
		Links       []struct {
			LinkType, LinkKind string
			From, Target       struct{ ContextID string }
		}
	}
	Subject struct {
		ID, Source string
		Content    struct{ Environment v1alpha1.Environment }
	}
	CustomData CustomData
}

func read(t *testing.T, e event.Event) written {
	t.Helper()
	if err := conforms(Version05, e); err != nil {
		t.Error(err)
	}
	var w written
	if err := json.Unmarshal(e.Data(), &w); err != nil {
		t.Fatal(err)
	}
	return w
}

// noted reports whether the event has a note on the field.
func (w written) noted(field string) bool {
	return slices.ContainsFunc(w.CustomData.Notes, func(n Note) bool { return n.Field == field })
}

func annotated(t *testing.T, service, revision map[string]string) written {
	t.Helper()
	tr := transitionOf(t, lifecycle.Upgraded)
	tr.Annotations = service
	tr.Revision.Annotations = revision
	return read(t, render(t, profile(Version05), tr))
}

func TestRevisionProvenanceWins(t *testing.T) {
	w := annotated(t, map[string]string{AnnotationCommitSHA: "service", AnnotationBranch: "service", "other": "x"},
		map[string]string{AnnotationCommitSHA: " revision ", AnnotationDeployer: ""},
	)
	if w.CustomData.CommitSHA != "revision" || w.CustomData.Branch != "service" || w.CustomData.Deployer != "" {
		t.Errorf("got %+v", w.CustomData)
	}
}

func TestProvenanceIsBounded(t *testing.T) {
	for _, wrong := range []string{strings.Repeat("x", maxProvenance+1), "a\nb", "\xff"} {
		w := annotated(t, nil, map[string]string{AnnotationBranch: wrong})
		if w.CustomData.Branch != "" || !w.noted("customData") {
			t.Errorf("%q: got %+v", clip(wrong), w.CustomData)
		}
	}
}

// A lead time that is missing is explained, too.
func TestTimesThatDoNotCount(t *testing.T) {
	now := transitionOf(t, lifecycle.Upgraded).Time
	for value, want := range map[string]string{
		now.Add(-time.Hour).Format(time.RFC3339): "", " " + now.Format(time.RFC3339Nano) + " ": "", "1970-01-01T00:00:00Z": "", "": "",
		"2026-11-29 10:11:12 +0100":             `"2026-11-29 10:11:12 +0100" is not in RFC 3339, as git's %cI is`,
		now.Add(time.Hour).Format(time.RFC3339): "is in the future",
	} {
		for _, name := range []string{dora.AnnotationCommitTime, dora.AnnotationPipelineStarted} {
			w := annotated(t, nil, map[string]string{name: value})
			said := slices.ContainsFunc(w.CustomData.Notes, func(n Note) bool {
				return strings.HasPrefix(n.Message, "annotation "+name+" does not count: ") && strings.HasSuffix(n.Message, want)
			})
			if said != (want != "") {
				t.Errorf("%s: %q: %v", name, value, w.CustomData.Notes)
			}
		}
	}
}

func TestReasonAndMergedSteps(t *testing.T) {
	tr := transitionOf(t, lifecycle.TrafficShifted)
	tr.Merged, tr.Reason = 47, lifecycle.ReasonWithdrawn
	if d := read(t, render(t, profile(Version05), tr)).CustomData; d.Merged != 47 || d.Reason != "CanaryWithdrawn" {
		t.Errorf("got %+v", d)
	}
}

func TestRolloutHasOneChain(t *testing.T) {
	chain := read(t, render(t, profile(Version05), transitionOf(t, lifecycle.Deployed))).Context.ChainID
	if !isUUID(chain) {
		t.Fatalf("%q is not a UUID", chain)
	}
	if other := render(t, profile(Version04), transitionOf(t, lifecycle.Deployed)); !strings.Contains(string(other.Data()), chain) {
		t.Error("another version of the specification has another chain")
	}
	if w := read(t, render(t, profile(Version05), transitionOf(t, lifecycle.Published))); w.Context.ChainID != chain {
		t.Error("another step of the rollout has another chain")
	}
	tr := transitionOf(t, lifecycle.Deployed)
	tr.Chain = 9
	if w := read(t, render(t, profile(Version05), tr)); w.Context.ChainID == chain {
		t.Error("another rollout has the same chain")
	}
	tr.Chain = 0
	if w := read(t, render(t, profile(Version05), tr)); w.Context.ChainID != "" {
		t.Error("a transition outside any rollout has a chain")
	}
}

func TestChainIsPassedOn(t *testing.T) {
	const given, previous = "7ff3f526-1a0e-4d35-8a4c-7d6295e97359", "11111111-1a0e-4d35-8a4c-7d6295e97359"
	if w := annotated(t, nil, map[string]string{AnnotationChainID: given}); w.Context.ChainID != given {
		t.Errorf("chain is %s", w.Context.ChainID)
	}
	for _, wrong := range []string{"42", "urn:uuid:" + given, "{" + given + "}", strings.ReplaceAll(given, "-", "")} {
		w := annotated(t, nil, map[string]string{AnnotationChainID: wrong})
		if !w.noted("context.chainId") || !isUUID(w.Context.ChainID) || w.Context.ChainID == wrong {
			t.Errorf("%q: chain is %s, notes %v", wrong, w.Context.ChainID, w.CustomData.Notes)
		}
	}

	back := transitionOf(t, lifecycle.RolledBack)
	back.Revision.Annotations = map[string]string{AnnotationChainID: previous}
	back.Previous.Annotations = map[string]string{AnnotationChainID: given}
	if w := read(t, render(t, profile(Version05), back)); w.Context.ChainID != given {
		t.Errorf("a rollback has chain %s, want that of the rollout it undoes", w.Context.ChainID)
	}
	back.Reason = lifecycle.ReasonReapplied
	if w := read(t, render(t, profile(Version05), back)); w.Context.ChainID != previous {
		t.Errorf("a rollback that is a rollout itself has chain %s", w.Context.ChainID)
	}
}

func TestLinksNameSentEvents(t *testing.T) {
	for _, version := range []string{Version05, Version04} {
		p := profile(version)
		upgraded := render(t, p, transitionOf(t, lifecycle.Upgraded))
		e := render(t, p, transitionOf(t, lifecycle.RolledBack))
		var w written
		if err := json.Unmarshal(e.Data(), &w); err != nil {
			t.Fatal(err)
		}
		if len(w.Context.Links) != 2 {
			t.Fatalf("links are %+v", w.Context.Links)
		}
		if l := w.Context.Links[0]; l.LinkType != "PATH" || l.From.ContextID != upgraded.ID() {
			t.Errorf("path is %+v, want from %s", l, upgraded.ID())
		}
		if l := w.Context.Links[1]; l.LinkType != "RELATION" || l.LinkKind != "UNDOES" || l.Target.ContextID != upgraded.ID() {
			t.Errorf("relation is %+v, want to %s", l, upgraded.ID())
		}
	}
}

func TestAnnotatedLinks(t *testing.T) {
	for value, want := range map[string][]string{
		"":                            nil,
		" , ,":                        nil,
		"ARTIFACT=a, TRIGGER=b":       {"ARTIFACT a", "TRIGGER b"},
		"a":                           {"TRIGGER a"},
		"https://ci.example/?run=7":   {"TRIGGER https://ci.example/?run=7"},
		"a b=c":                       nil,
		"ARTIFACT = a":                nil,
		"ARTIFACT= a,b":               {"TRIGGER b"},
		"ARTIFACT\u00a0=a":            nil,
		"ARTIFACT a":                  nil,
		"=c":                          nil,
		"KIND=a=b":                    {"KIND a=b"},
		"KIND=":                       nil,
		"a\x01,b":                     {"TRIGGER b"},
		strings.Repeat("x", 257):      nil,
		strings.Repeat("x,", 20)[:39]: slices.Repeat([]string{"TRIGGER x"}, maxLinks),
	} {
		tr := transitionOf(t, lifecycle.Upgraded)
		tr.Links = nil
		tr.Revision.Annotations = map[string]string{AnnotationLinks: value}
		w := read(t, render(t, profile(Version05), tr))
		var got []string
		for _, l := range w.Context.Links {
			got = append(got, l.LinkKind+" "+l.Target.ContextID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q gives %q, want %q", value, got, want)
		}
		if asked := strings.Count(strings.Trim(value, ", "), ",") + 1; strings.Trim(value, ", ") != "" && len(want) < asked && !w.noted("context.links") {
			t.Errorf("%q: no note on the dropped links", value)
		}
	}
}

func TestTraceParent(t *testing.T) {
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for value, want := range map[string]string{
		good:                  good,
		"":                    "",
		good + "-00":          "",
		strings.ToUpper(good): "",
		"ff" + good[2:]:       "",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01": "",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01": "",
		good + "\r\nce-id: 1": "",
	} {
		tr := transitionOf(t, lifecycle.Upgraded)
		tr.Revision.Annotations = map[string]string{AnnotationTraceParent: value}
		e := render(t, profile(Version05), tr)
		if got, _ := e.Extensions()["traceparent"].(string); got != want {
			t.Errorf("%q gives %q", value, got)
		}
		if value != want && !read(t, e).noted("traceparent") {
			t.Errorf("%q: no note", value)
		}
	}
}

func TestOverridesNeverReplaceAttributes(t *testing.T) {
	p, tr := profile(Version05), transitionOf(t, lifecycle.Upgraded)
	plain := render(t, p, tr)
	p.Extensions = map[string]string{
		"team": " checkout ", "Tier": "gold", "traceparent": "mine", "umlaut": "Zürich",
		"id": "x", "Source": "x", "type": "x", "time": "x", "subject": "x", "specversion": "x",
		"datacontenttype": "x", "dataschema": "x", "data": "x",
		"": "x", "with-hyphen": "x", "empty": " ", "newline": "a\r\nb", "broken": "\xff", "noncharacter": "\uffff",
	}
	if own := plain.Extensions(); len(own) != 2 || own["partitionkey"] != "service/shop/cart" {
		t.Errorf("without overrides, extensions are %v", own)
	}
	e := render(t, p, tr)
	want := map[string]any{"team": "checkout", "tier": "gold", "traceparent": "mine", "umlaut": "Zürich", "partitionkey": "service/shop/cart"}
	if got := e.Extensions(); len(got) != len(want) {
		t.Errorf("extensions are %v, want %v", got, want)
	}
	for name, value := range want {
		if e.Extensions()[name] != value {
			t.Errorf("%s is %v, want %v", name, e.Extensions()[name], value)
		}
	}
	if e.Source() != plain.Source() || e.Type() != plain.Type() || e.Subject() != plain.Subject() || !e.Time().Equal(plain.Time()) {
		t.Errorf("an attribute was overridden: %s", e)
	}
	w := read(t, e)
	if e.ID() != w.Context.ID || e.ID() == plain.ID() {
		t.Errorf("the id is %s", e.ID())
	}
	for _, field := range []string{"id", "Source", "", "with-hyphen", "empty", "newline"} {
		if !w.noted(field) {
			t.Errorf("no note on %q", field)
		}
	}
}

func TestEnvironment(t *testing.T) {
	for name, tt := range map[string]struct {
		given, want v1alpha1.Environment
		note        string
	}{
		"as configured": {v1alpha1.Environment{ID: "a", Source: "/b"}, v1alpha1.Environment{ID: "a", Source: "/b"}, ""},
		"no source":     {v1alpha1.Environment{ID: "a"}, v1alpha1.Environment{ID: "a"}, ""},
		"none":          {v1alpha1.Environment{}, v1alpha1.Environment{ID: "unknown"}, "environment.id"},
		"no URI":        {v1alpha1.Environment{ID: "a", Source: "b c"}, v1alpha1.Environment{ID: "a"}, "environment.source"},
	} {
		t.Run(name, func(t *testing.T) {
			p := profile(Version05)
			p.Environment = tt.given
			w := read(t, render(t, p, transitionOf(t, lifecycle.Removed)))
			if w.Subject.Content.Environment != tt.want {
				t.Errorf("got %+v", w.Subject.Content.Environment)
			}
			if w.noted(tt.note) != (tt.note != "") {
				t.Errorf("notes are %v", w.CustomData.Notes)
			}
		})
	}
}

func TestSubjectID(t *testing.T) {
	for want, s := range map[string]v1alpha1.CDEventSubjectSpec{
		"service/shop/cart":      cart,
		"cluster/eu-1":           {Kind: "Cluster", Name: "eu-1"},
		"service/a%2Fb/c%0D%0Ad": {Kind: "Service", Namespace: "a/b", Name: "c\r\nd"},
	} {
		if got := SubjectID(s); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestCarriedAnnotations(t *testing.T) {
	carried := CarriedAnnotations()
	if len(carried) != 10 || !slices.IsSorted(carried) {
		t.Errorf("got %q", carried)
	}
	carried[0] = "spoiled"
	if CarriedAnnotations()[0] == "spoiled" {
		t.Error("callers share the list")
	}
}
