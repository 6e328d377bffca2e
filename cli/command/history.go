// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/knative-cdevents/knative-cdevents/cli/report"
	"github.com/knative-cdevents/knative-cdevents/cli/screen"
	"github.com/knative-cdevents/knative-cdevents/cli/words"
)

func (e *env) history() *cobra.Command {
	c := &cobra.Command{
		Use:   "history SERVICE | KIND/ENVIRONMENT",
		Short: "Show what happened to a Service or an environment, when, and who was told",
		Args:  cobra.ExactArgs(1),
		Example: "  kubectl cdevents history cart -n shop --since 24h\n" +
			"  kubectl cdevents history cluster/prod -n fleet",
		ValidArgsFunction: e.completeSubjects,
	}
	var s choice
	s.addWatch(c)
	s.addSince(c, "events")
	o := addOutput(c, formatWide)
	history := func(h *report.History) answer {
		return answer{kind: "History", value: h, show: func() { e.showHistory(h, o.is(formatWide), s.since) }}
	}
	c.RunE = e.answers(o, &s, func(ctx context.Context, r *report.Reporter, ns string, args []string) (answer, error) {
		h, err := r.History(ctx, ns, args[0])
		if err != nil {
			return answer{}, err
		}
		out := history(h)
		out.news = func(before any) (answer, bool) {
			was, _ := before.(*report.History)
			news, has := h.News(was)
			return history(news), has
		}
		return out, nil
	})
	return c
}

func (e *env) showHistory(h *report.History, wide bool, since time.Duration) {
	t := &screen.Table{
		Titles: []string{"#", "TIME", "EVENT", "WHAT HAPPENED", "TOLD", "PENDING FOR"}, Least: []int{0, 0, 0, 20, 10, 10},
	}
	if wide {
		t.Least = nil
	}
	times := make([]time.Time, 0, len(h.Events))
	for _, ev := range h.Events {
		times = append(times, ev.Time)
	}
	stamp := words.Stamps(e.Now(), times...)
	for _, ev := range h.Events {
		number, typ := "", ""
		if ev.Sequence > 0 {
			number, typ = fmt.Sprint(ev.Sequence), ev.Short()
			if wide {
				typ = ev.Type
			}
		}
		t.Add(
			screen.Cell{Text: number, Style: screen.Dim},
			screen.Text(stamp(ev.Time)),
			screen.Text(typ),
			screen.Text(ev.Text),
			screen.Text(
				strings.Join(ev.AcknowledgedBy, ", "),
			),
			screen.Cell{Text: strings.Join(ev.PendingFor, ", "), Style: screen.Unsure},
		)
	}
	switch {
	case t.Empty() && since > 0:
		e.note("Nothing happened to %s %s/%s in the last %s, as far as the ledger knows", h.Kind, h.Namespace, h.Name, since)
	case t.Empty():
		e.note("No event of %s %s/%s is known: it was there before the controller, and nothing has happened since", h.Kind,
			h.Namespace, h.Name)
	default:
		e.Screen.Table(t)
	}
	for _, reason := range slices.Sorted(maps.Keys(h.Dropped)) {
		e.Screen.Printf("%s\n", e.Screen.Paint(screen.Bad, fmt.Sprintf("%d dropped: %s", h.Dropped[reason], reason)))
	}
	for _, n := range h.Notes {
		e.note("note: %s", n)
	}
}
