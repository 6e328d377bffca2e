// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/dora"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/journal"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// For each version of the rendering, testdata has a CDEventSubject as a controller of that version
// journaled it, and the events that it would have sent. An upgrade must send exactly those.
func TestJournaledEventsKeepTheirBytes(t *testing.T) {
	for version := 1; version <= Rendering; version++ {
		keepsItsBytes(t, version, "", frozen{cart, append(serviceStory(), invalid()...)})
		keepsItsBytes(t, version, "environment", frozen{prod, append(environmentStory(1), invalidEnvironments()...)})
	}
}

// frozen is what a subject in testdata has journaled.
type frozen struct {
	subject     v1alpha1.CDEventSubjectSpec
	transitions []lifecycle.Transition
}

func keepsItsBytes(t *testing.T, version int, kind string, journaled frozen) {
	t.Helper()
	dir := filepath.Join("testdata", "journaled", strconv.Itoa(version), kind)
	t.Run(strings.Trim(strconv.Itoa(version)+"/"+kind, "/"), func(t *testing.T) {
		_, err := os.Stat(filepath.Join(dir, "events.txt"))
		if errors.Is(err, fs.ErrNotExist) && version == Rendering && *update {
			freeze(t, dir, journaled)
		}
		want, err := os.ReadFile(filepath.Join(dir, "events.txt"))
		if err != nil {
			t.Fatalf("%v; for a new version of the rendering, run: go test ./emitter/cdevents -update", err)
		}
		raw, err := os.ReadFile(filepath.Join(dir, "subject.json"))
		if err != nil {
			t.Fatal(err)
		}
		var subject v1alpha1.CDEventSubject
		if err := json.Unmarshal(raw, &subject); err != nil {
			t.Fatal(err)
		}
		if got := transcribe(t, &subject); got != string(want) {
			t.Errorf("%s\n\nVersion %d of the rendering gives different bytes than before. Events that were journaled for it would be sent "+
				"with the same ids and different bytes. Leave this version unchanged and add a new one; see DEVELOPMENT.md.",
				difference(string(want), got), version)
		}
	})
}

func TestJournalOfALaterRelease(t *testing.T) {
	p := profile(Version05)
	p.Rendering = Rendering + 1
	if _, err := Render(p, cart, story()[0]); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("version %d", Rendering+1)) {
		t.Errorf("%v", err)
	}
	absent, named := profile(Version05), profile(Version05)
	absent.Rendering, named.Rendering = 0, 1
	same(t, render(t, absent, story()[0]), render(t, named, story()[0]))
}

// audience is the set of sources that the frozen events are for.
type audience struct{ journal.Unread }

func (audience) Exists(types.UID) bool { return true }

func (audience) Recipients(v1alpha1.CDEventSubjectSpec, ledger.Labels, lifecycle.Transition) []ledger.Recipient {
	plain, old, replayed := profile(Version05), profile(Version04), profile(Version05)
	plain.Rendering, old.Rendering, replayed.Rendering = Rendering, Rendering, Rendering
	old.Environment.Source = ""
	old.Extensions = map[string]string{"team": "checkout", "Region": "eu", "source": "reserved", "no-name": "x"}
	replayed.Replay = "replayed"
	return []ledger.Recipient{{Source: "plain", Profile: plain}, {Source: "overriding", Profile: old}, {Source: "replayed", Profile: replayed}}
}

// serviceStory returns the story without environments.
func serviceStory() []lifecycle.Transition {
	return slices.DeleteFunc(story(), func(tr lifecycle.Transition) bool { return tr.Environment != nil })
}

// freeze journals a story and some user mistakes, and writes down the events.
func freeze(t *testing.T, dir string, journaled frozen) {
	t.Helper()
	all := journaled.transitions
	for i := range all {
		all[i].Sequence = int64(i + 1)
		all[i].Time = after(all[i].Sequence)
	}
	s := store.New()
	s.Now = func() time.Time { return started }
	err := ledger.New(s, audience{}, journal.Unread{}).Journal(context.Background(), journaled.subject, func(*v1alpha1.CDEventSubject) (*ledger.Change, error) {
		return &ledger.Change{Memory: lifecycle.Memory{Sequence: int64(len(all))}, Transitions: all, At: started}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	subject := s.All()[0]
	raw, err := json.Marshal(subject)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"subject.json": indented(t, raw) + "\n", "events.txt": transcribe(t, subject)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// invalid returns transitions of objects with values that events cannot carry, or only in part.
func invalid() []lifecycle.Transition {
	wrong, large := secondRevision(), secondRevision()
	wrong.Images = []lifecycle.Image{{Image: "Not an image"}}
	wrong.Annotations = map[string]string{
		AnnotationCommitSHA: strings.Repeat("a", 2*maxProvenance), AnnotationLinks: "=,RELATION=1,COMPONENT=",
		AnnotationTraceParent: "00-0-0-00", AnnotationChainID: "not one", AnnotationDeployer: "Jürgen <j@example.com> & \u2028co",
		dora.AnnotationCommitTime: "yesterday", dora.AnnotationPipelineStarted: "2031-01-01T00:00:00Z",
	}
	for i := range 200 {
		large.Images = append(large.Images, lifecycle.Image{Container: fmt.Sprint("c", i), Image: strings.Repeat("x", 100), Digest: "registry.example.com/x@" + digest1})
	}
	return []lifecycle.Transition{
		{Type: lifecycle.Upgraded, Reason: lifecycle.ReasonConfiguration, Generation: 6, Chain: 16, Revision: wrong, Previous: firstRevision(), Merged: 3},
		{Type: lifecycle.Upgraded, Generation: 7, Chain: 17, Revision: large, Previous: large},
	}
}

// invalidEnvironments returns transitions with values that events cannot carry, or only in part.
func invalidEnvironments() []lifecycle.Transition {
	wrong := lifecycle.Environment{
		ID: "prod-eu", Version: strings.Repeat("v", 2*maxProvenance), Region: "a\nb", URL: "https://admin@example.com", Class: "<standard> & co",
		Pools: []string{"a", strings.Repeat("b", 2*maxName)}, Note: "the control plane's object could not be read",
	}
	relative := provisioned()
	relative.URL = "prod.fleet.example.com:6443/ü"
	return []lifecycle.Transition{
		{Type: lifecycle.EnvironmentModified, Generation: 4, Chain: 6, Environment: &lifecycle.EnvironmentDetails{Environment: wrong, Previous: &relative, Changed: []string{"version", "pools"}}},
		{
			Type: lifecycle.IncidentDetected, Generation: 4, Chain: 7, Environment: &lifecycle.EnvironmentDetails{Environment: provisioned()},
			Incident: &lifecycle.IncidentDetails{Kind: lifecycle.EnvironmentOutage, Opened: 7, Since: after(5), Trouble: lifecycle.Trouble{Reason: "NotReachable", Message: "the control plane does not answer"}},
		},
		{
			Type: lifecycle.EnvironmentDeleted, Generation: 4, Chain: 8, Annotations: map[string]string{AnnotationChainID: "not one"},
			Environment: &lifecycle.EnvironmentDetails{Environment: provisioned(), Beneath: lifecycle.BeneathUnknown},
		},
	}
}

// transcribe renders all pending events as requests.
func transcribe(t *testing.T, subject *v1alpha1.CDEventSubject) string {
	t.Helper()
	l := ledger.New(nil, audience{}, journal.Unread{})
	l.Observe(subject)
	var b strings.Builder
	for _, source := range []types.UID{"plain", "overriding", "replayed"} {
		owed := l.Pending(ledger.KeyOf(subject.Spec), source)
		if len(owed) == 0 {
			t.Errorf("no events are pending for %s", source)
		}
		for _, o := range owed {
			e, err := Render(o.Profile, o.Subject, o.Transition)
			if err = errors.Join(o.Unreadable, err); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "### %d to %s\n%s\n\n%s\n\n", o.Transition.Sequence, source, strings.Join(binaryHeaders(e.Event), "\n"), e.Data())
		}
	}
	return b.String()
}

// difference shows where two texts start to differ.
func difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d was\n%s\nand is\n%s", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("there were %d lines, and are %d", len(a), len(b))
}
