// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/cli/reader"
	"github.com/knative-cdevents/knative-cdevents/cli/timeline"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// History is what happened to an object, and which sources acknowledged it.
type History struct {
	Kind      string  `json:"subjectKind"`
	Namespace string  `json:"namespace,omitempty"`
	Name      string  `json:"name"`
	Events    []Event `json:"events"`
	// Transitions is how many events there have been; the ledger does not keep all of them.
	Transitions int64 `json:"transitions"`
	// Sources say up to which event each source has acknowledged.
	Sources []SourceProgress `json:"sources,omitempty"`
	Dropped map[string]int64 `json:"dropped,omitempty"`
	Notes   []string         `json:"notes,omitempty"`

	// Timeline is what the ledger holds; empty if the user may not read it.
	Timeline timeline.Timeline `json:"-"`
}

// Event is one thing that happened, with names of sources.
type Event struct {
	timeline.Event
	AcknowledgedBy []string `json:"told,omitempty"`
	PendingFor     []string `json:"pendingFor,omitempty"`
}

// SourceProgress says up to which event a source has acknowledged.
type SourceProgress struct {
	Source string `json:"source"`
	UpTo   int64  `json:"upTo"`
}

// ServiceKinds are the words for a Knative Service before a name.
var ServiceKinds = []string{"service", "services", "ksvc"}

// History reads the history of a Service, or of an environment if the name has a kind before it.
func (r *Reporter) History(ctx context.Context, namespace, name string) (*History, error) {
	h, err := r.history(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	h.Events = slices.DeleteFunc(h.Events, func(ev Event) bool { return ev.Time.Before(r.Since) })
	return h, nil
}

func (r *Reporter) history(ctx context.Context, namespace, name string) (*History, error) {
	kind, name, has := divided(name)
	switch {
	case has && (kind == "" || name == ""):
		return nil, &reader.Error{Kind: reader.ErrUnknownKind, Message: "a kind or a name is missing; write SERVICE, or KIND/ENVIRONMENT"}
	case has && !slices.Contains(ServiceKinds, kind):
		return r.environmentHistory(ctx, namespace, kind, name)
	}
	h := &History{Kind: "Service", Namespace: namespace, Name: name, Events: []Event{}}
	service, err := r.Service(ctx, namespace, name)
	if err != nil && !errors.Is(err, reader.ErrNotFound) {
		return nil, err
	}
	if err != nil {
		// It may be gone, and its last events pending.
		entry, err := r.past(ctx, namespace, name, err)
		if err != nil {
			return nil, err
		}
		h.Notes = append(h.Notes, "the Service is gone; its entry stays until its last events are delivered")
		return h, r.read(ctx, h, entry)
	}
	entry, err := r.Entry(ctx, "Service", service.UID)
	switch {
	case errors.Is(err, reader.ErrForbidden):
		h.Notes = append(h.Notes, "only what the Service, its Revisions and its gates show: "+err.Error())
		if err := r.withoutLedger(ctx, h, service.CreationTimestamp.UTC()); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	case entry == nil:
		h.Notes = append(h.Notes,
			"the controller has not seen this Service; check that it runs: kubectl get pods -n "+r.Clock.System)
	default:
		if err := r.read(ctx, h, entry); err != nil {
			return nil, err
		}
	}
	r.addGates(ctx, h)
	return h, nil
}

// environmentHistory reads the entry of an object of another kind, with or without a namespace.
func (r *Reporter) environmentHistory(ctx context.Context, namespace, kind, name string) (*History, error) {
	var best *v1alpha1.CDEventSubject
	for _, in := range []string{namespace, ""} {
		entry, err := r.find(ctx, in, func(s *v1alpha1.CDEventSubject) bool {
			return strings.EqualFold(s.Spec.Kind, kind) && s.Spec.Name == name && s.Spec.Namespace == in
		})
		if err != nil {
			return nil, err
		}
		if best = entry; best != nil {
			break
		}
	}
	if best == nil {
		return nil, &reader.Error{
			Kind:    reader.ErrNotFound,
			Message: fmt.Sprintf("the ledger has no %s %q, neither in namespace %s nor without one", kind, name, namespace),
		}
	}
	h := &History{Kind: best.Spec.Kind, Namespace: best.Spec.Namespace, Name: best.Spec.Name, Events: []Event{}}
	return h, r.read(ctx, h, best)
}

// Known returns an error unless there is a Service of that name, or was one whose last events are pending.
func (r *Reporter) Known(ctx context.Context, namespace, name string) error {
	_, err := r.Service(ctx, namespace, name)
	if errors.Is(err, reader.ErrNotFound) {
		_, err = r.past(ctx, namespace, name, err)
	}
	return err
}

// past returns the entry of a Service that does not exist, or the error that says so.
func (r *Reporter) past(ctx context.Context, namespace, name string, missing error) (*v1alpha1.CDEventSubject, error) {
	entry, err := r.find(ctx, namespace, func(s *v1alpha1.CDEventSubject) bool {
		return IsService(s) && s.Spec.Name == name
	})
	switch {
	case errors.Is(err, reader.ErrForbidden):
		return nil, &reader.Error{
			Kind: reader.ErrNotFound, Message: fmt.Sprintf("%v; the ledger is not looked at: %v", missing, err),
		}
	case err == nil && entry == nil:
		return nil, missing
	}
	return entry, err
}

// find returns the newest entry that matches, or nil.
func (r *Reporter) find(
	ctx context.Context,
	namespace string,
	matches func(*v1alpha1.CDEventSubject) bool,
) (*v1alpha1.CDEventSubject, error) {
	entries, err := r.Ledger(ctx, namespace)
	if err != nil {
		return nil, err
	}
	var best *v1alpha1.CDEventSubject
	for i := range entries {
		if s := &entries[i]; matches(s) && (best == nil || best.CreationTimestamp.Before(&s.CreationTimestamp)) {
			best = s
		}
	}
	return best, nil
}

// read adds what an entry of the ledger holds.
func (r *Reporter) read(ctx context.Context, h *History, entry *v1alpha1.CDEventSubject) error {
	t, err := timeline.Of(entry)
	if err != nil {
		return err
	}
	sources, err := r.Sources(ctx, h.Namespace)
	if err != nil && !errors.Is(err, reader.ErrForbidden) {
		return err
	}
	names := r.SourceNames(ctx, h.Namespace, sources)
	for _, ev := range t.Events {
		h.Events = append(h.Events, Event{
			Event: ev, AcknowledgedBy: All(ev.AcknowledgedBy, names),
			PendingFor: All(ev.PendingFor, names),
		})
	}
	h.Transitions, h.Dropped, h.Timeline = t.Sequence, t.Dropped, t
	for source, upTo := range t.Acknowledged {
		h.Sources = append(h.Sources, SourceProgress{Source: names(source), UpTo: upTo})
	}
	slices.SortFunc(h.Sources, func(a, b SourceProgress) int { return strings.Compare(a.Source, b.Source) })
	if n := int64(len(t.Events)); n < t.Sequence {
		h.Notes = append(
			h.Notes,
			fmt.Sprintf(
				"%d of %d events: the ledger keeps the last 20, those that are pending, and those that later ones refer to",
				n,
				t.Sequence,
			),
		)
	}
	return nil
}

// All returns the names of sources, each once.
func All(sources []types.UID, names func(types.UID) string) []string {
	var out []string
	for _, s := range sources {
		out = append(out, names(s))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// withoutLedger adds what the Service's own objects show.
func (r *Reporter) withoutLedger(ctx context.Context, h *History, created time.Time) error {
	h.Events = append(h.Events, Event{Event: timeline.Event{Time: created, Text: "created"}})
	revisions, err := r.Revisions(ctx, h.Namespace, h.Name)
	if errors.Is(err, reader.ErrForbidden) {
		h.Notes = append(h.Notes, err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	for i := range revisions {
		h.Events = append(h.Events, Event{Event: timeline.Event{
			Time: revisions[i].CreationTimestamp.UTC(), Text: "Revision " + revisions[i].Name + " was created",
		}})
	}
	h.sort()
	return nil
}

// addGates adds the newest run of each gate. The ledger knows a run by its verdict alone.
func (r *Reporter) addGates(ctx context.Context, h *History) {
	gates, err := r.Gates(ctx, h.Namespace)
	if err != nil {
		h.Notes = append(h.Notes, "gates are not shown: "+err.Error())
		return
	}
	for i := range gates {
		g := &gates[i]
		run := g.Status.Run
		if g.Spec.Service != h.Name || run == nil {
			continue
		}
		h.Events = append(h.Events, Event{Event: timeline.Event{
			Time: run.StartTime.UTC(), Text: fmt.Sprintf("gate %s began to judge %s", g.Name, run.Canary.Name),
			Outcome: timeline.Plain,
		}})
		text := fmt.Sprintf("gate %s judged %s: %s (%s)", g.Name, run.Canary.Name, run.Verdict,
			strings.Join(run.Reasons, ", "))
		known := func(ev Event) bool {
			return ev.Sequence > 0 && ev.Text == text && !ev.Time.Before(run.CompletionTime.Time)
		}
		if run.CompletionTime != nil && !slices.ContainsFunc(h.Events, known) {
			h.Events = append(h.Events, Event{Event: timeline.Event{
				Time: run.CompletionTime.UTC(), Text: text, Outcome: timeline.OutcomeOf(lifecycle.Judged, run.Verdict),
			}})
		}
	}
	h.sort()
}

func (h *History) sort() {
	slices.SortStableFunc(h.Events, func(a, b Event) int { return a.Time.Compare(b.Time) })
}
