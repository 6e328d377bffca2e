// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/knative-cdevents/knative-cdevents/cli/reader"
	"github.com/knative-cdevents/knative-cdevents/cli/report"
)

func (e *env) gate() *cobra.Command {
	c := &cobra.Command{
		Use:   "gate SERVICE | GATE",
		Short: "Show the current or last run of a Service's gates, with its numbers",
		Long: "Shows the current or last run of a Service's gates, or of the gate of that name, with its numbers.\n" +
			"For a Service that is called wait, write: kubectl cdevents gate -- wait",
		Args:              cobra.ExactArgs(1),
		Annotations:       map[string]string{takesArguments: "true"},
		ValidArgsFunction: e.completeGates,
		// A greater one would find wait for cart.
		SuggestionsMinimumDistance: 1,
	}
	var s choice
	s.addWatch(c)
	s.addSince(c, "earlier runs")
	o := addOutput(c, formatName)
	runs := func(all []*report.GateReport) answer {
		out := answer{kind: "GateReport", value: gateReports{all}, show: func() { e.showGates(all) }}
		for _, g := range all {
			out.names = append(out.names, gateName(g.Name))
		}
		return out
	}
	c.RunE = e.answers(o, &s, func(ctx context.Context, r *report.Reporter, ns string, args []string) (answer, error) {
		reports, err := r.GateRuns(ctx, ns, args[0])
		if near := c.SuggestionsFor(args[0]); errors.Is(err, reader.ErrNotFound) && len(near) > 0 {
			err = fmt.Errorf("%w; did you mean %s %s?", err, c.CommandPath(), near[0])
		}
		if err != nil {
			return answer{}, err
		}
		out := runs(reports)
		out.news = func(before any) (answer, bool) {
			was, _ := before.(gateReports)
			news, has := report.GateNews(was.Gates, reports)
			return runs(news), has
		}
		return out, nil
	})
	c.AddCommand(e.gateWait())
	return c
}

// gateReports is what -o json prints of gates.
type gateReports struct {
	Gates []*report.GateReport `json:"gates"`
}
