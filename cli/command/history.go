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

	"github.com/knative-cdevents/knative-cdevents/cli/reader"
	"github.com/knative-cdevents/knative-cdevents/cli/report"
	"github.com/knative-cdevents/knative-cdevents/cli/screen"
	"github.com/knative-cdevents/knative-cdevents/cli/words"
)

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
	c.RunE = e.answers(
		o,
		new(bool),
		func(ctx context.Context, r *reader.Reader, namespace string, args []string) (answer, error) {
			h, err := e.reporter(r).History(ctx, namespace, args[0])
			return answer{"History", h, func() { e.showHistory(h, o.isWide()) }}, err
		},
	)
	return c
}

func (e *env) showHistory(h *report.History, wide bool) {
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
	if t.Empty() {
		e.note("No event of %s %s/%s is known: it was there before the controller, and nothing has happened since", h.Kind,
			h.Namespace, h.Name)
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
