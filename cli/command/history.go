package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/cli/reader"
	"github.com/knative-cdevents/knative-cdevents/cli/screen"
	"github.com/knative-cdevents/knative-cdevents/cli/timeline"
)

// history is what history prints.
type history struct {
	Kind      string  `json:"subjectKind"`
	Namespace string  `json:"namespace,omitempty"`
	Name      string  `json:"name"`
	Events    []event `json:"events"`
	// Transitions is how many events there have been; the ledger does not keep all of them.
	Transitions int64 `json:"transitions"`
	// Sources say up to which event each source has been told.
	Sources []told           `json:"sources,omitempty"`
	Dropped map[string]int64 `json:"dropped,omitempty"`
	Notes   []string         `json:"notes,omitempty"`
}

type event struct {
	timeline.Event
	Told []string `json:"told,omitempty"`
	Owed []string `json:"owed,omitempty"`
}

type told struct {
	Source string `json:"source"`
	UpTo   int64  `json:"upTo"`
}

func (e *env) history() *cobra.Command {
	c := &cobra.Command{
		Use:   "history SERVICE | KIND/ENVIRONMENT",
		Short: "Show what happened to a Service or an environment, when, and who was told",
		Args:  cobra.ExactArgs(1),
		Example: "  kubectl cdevents history cart -n shop\n" +
			"  kubectl cdevents history cluster/prod -n fleet",
		ValidArgsFunction: e.completeSubjects,
	}
	o := addOutput(c, true)
	c.RunE = e.answers(o, new(bool), func(ctx context.Context, r *reader.Reader, namespace string, args []string) (answer, error) {
		h, err := e.historyOf(ctx, r, namespace, args[0])
		return answer{"History", h, func() { e.showHistory(h, o.isWide()) }}, err
	})
	return c
}

// serviceKinds are the words for a Knative Service before a name.
var serviceKinds = []string{"service", "services", "ksvc"}

// historyOf reads the history of a Service, or of an environment if the name has a kind before it.
func (e *env) historyOf(ctx context.Context, r *reader.Reader, namespace, name string) (*history, error) {
	kind, rest, has := strings.Cut(name, "/")
	if has && !slices.Contains(serviceKinds, strings.ToLower(kind)) {
		return e.environmentHistory(ctx, r, namespace, kind, rest)
	}
	if has {
		name = rest
	}
	h := &history{Kind: "Service", Namespace: namespace, Name: name, Events: []event{}}
	service, err := r.Service(ctx, namespace, name)
	if err != nil && !errors.Is(err, reader.ErrNotFound) {
		return nil, err
	}
	if err != nil {
		// It may be gone, and its last events pending.
		entry, lost := e.find(ctx, r, namespace, func(s *v1alpha1.CDEventSubject) bool {
			return isService(s) && s.Spec.Name == name
		})
		if lost != nil || entry == nil {
			return nil, err
		}
		h.Notes = append(h.Notes, "the Service is gone; its entry stays until its last events are delivered")
		return h, e.read(ctx, r, h, entry)
	}
	entry, err := r.Entry(ctx, "Service", service.UID)
	switch {
	case errors.Is(err, reader.ErrForbidden):
		h.Notes = append(h.Notes, "only what the Service, its Revisions and its gates show: "+err.Error())
		if err := e.withoutLedger(ctx, r, h, service.CreationTimestamp.Time); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	case entry == nil:
		h.Notes = append(h.Notes, "the controller has not seen this Service; check that it runs: kubectl get pods -n "+r.System)
	default:
		if err := e.read(ctx, r, h, entry); err != nil {
			return nil, err
		}
	}
	e.addGates(ctx, r, h)
	return h, nil
}

// environmentHistory reads the entry of an object of another kind, with or without a namespace.
func (e *env) environmentHistory(ctx context.Context, r *reader.Reader, namespace, kind, name string) (*history, error) {
	var best *v1alpha1.CDEventSubject
	for _, in := range []string{namespace, ""} {
		entry, err := e.find(ctx, r, in, func(s *v1alpha1.CDEventSubject) bool {
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
		return nil, &reader.Error{Kind: reader.ErrNotFound, Message: fmt.Sprintf("the ledger has no %s %q, neither in namespace %s nor without one", kind, name, namespace)}
	}
	h := &history{Kind: best.Spec.Kind, Namespace: best.Spec.Namespace, Name: best.Spec.Name, Events: []event{}}
	return h, e.read(ctx, r, h, best)
}

// find returns the newest entry that matches, or nil.
func (e *env) find(ctx context.Context, r *reader.Reader, namespace string, matches func(*v1alpha1.CDEventSubject) bool) (*v1alpha1.CDEventSubject, error) {
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
func (e *env) read(ctx context.Context, r *reader.Reader, h *history, entry *v1alpha1.CDEventSubject) error {
	t, err := timeline.Of(entry)
	if err != nil {
		return err
	}
	sources, err := r.Sources(ctx, h.Namespace)
	if err != nil && !errors.Is(err, reader.ErrForbidden) {
		return err
	}
	names := e.sourceNames(ctx, r, h.Namespace, sources)
	for _, ev := range t.Events {
		h.Events = append(h.Events, event{Event: ev, Told: all(ev.Told, names), Owed: all(ev.Owed, names)})
	}
	h.Transitions, h.Dropped = t.Sequence, t.Dropped
	for source, upTo := range t.Acknowledged {
		h.Sources = append(h.Sources, told{Source: names(source), UpTo: upTo})
	}
	slices.SortFunc(h.Sources, func(a, b told) int { return strings.Compare(a.Source, b.Source) })
	if n := int64(len(t.Events)); n < t.Sequence {
		h.Notes = append(h.Notes, fmt.Sprintf("%d of %d events: of delivered ones, the ledger keeps only those that it needs", n, t.Sequence))
	}
	return nil
}

func all(sources []types.UID, names func(types.UID) string) []string {
	var out []string
	for _, s := range sources {
		out = append(out, names(s))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// withoutLedger adds what the Service's own objects show.
func (e *env) withoutLedger(ctx context.Context, r *reader.Reader, h *history, created time.Time) error {
	h.Events = append(h.Events, event{Event: timeline.Event{Time: created, Text: "created"}})
	revisions, err := r.Revisions(ctx, h.Namespace, h.Name)
	if errors.Is(err, reader.ErrForbidden) {
		h.Notes = append(h.Notes, err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	for i := range revisions {
		h.Events = append(h.Events, event{Event: timeline.Event{
			Time: revisions[i].CreationTimestamp.Time, Text: "Revision " + revisions[i].Name + " was created",
		}})
	}
	h.sort()
	return nil
}

// addGates adds the newest run of each gate. The ledger holds verdicts only until they are delivered.
func (e *env) addGates(ctx context.Context, r *reader.Reader, h *history) {
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
		h.Events = append(h.Events, event{Event: timeline.Event{
			Time: run.StartTime.Time, Text: fmt.Sprintf("gate %s began to judge %s", g.Name, run.Canary.Name),
		}})
		if run.CompletionTime != nil {
			h.Events = append(h.Events, event{Event: timeline.Event{
				Time: run.CompletionTime.Time,
				Text: fmt.Sprintf("gate %s judged %s: %s (%s)", g.Name, run.Canary.Name, run.Verdict, strings.Join(run.Reasons, ", ")),
			}})
		}
	}
	h.sort()
}

func (h *history) sort() {
	slices.SortStableFunc(h.Events, func(a, b event) int { return a.Time.Compare(b.Time) })
}

func (e *env) showHistory(h *history, wide bool) {
	t := &screen.Table{
		Titles: []string{"#", "TIME", "EVENT", "WHAT HAPPENED", "TOLD", "OWED TO"}, Least: []int{0, 0, 0, 20, 10, 10},
	}
	if wide {
		t.Least = nil
	}
	for _, ev := range h.Events {
		number, typ := "", ""
		if ev.Sequence > 0 {
			number, typ = fmt.Sprint(ev.Sequence), ev.Short()
			if wide {
				typ = ev.Type
			}
		}
		t.Add(screen.Cell{Text: number, Style: screen.Dim}, screen.Text(e.stamp(ev.Time)), screen.Text(typ), screen.Text(ev.Text),
			screen.Text(strings.Join(ev.Told, ", ")), screen.Cell{Text: strings.Join(ev.Owed, ", "), Style: screen.Unsure})
	}
	if t.Empty() {
		e.note("No event of %s %s/%s is known: it was there before the controller, and nothing has happened since", h.Kind, h.Namespace, h.Name)
	} else {
		e.Screen.Table(t)
	}
	for _, reason := range slices.Sorted(maps.Keys(h.Dropped)) {
		e.Screen.Printf("%s\n", e.Screen.Paint(screen.Bad, fmt.Sprintf("%d dropped: %s", h.Dropped[reason], reason)))
	}
	for _, n := range h.Notes {
		e.note("note: %s", n)
	}
}
