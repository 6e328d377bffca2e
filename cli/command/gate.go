// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/knative-cdevents/knative-cdevents/cli/reader"
)

func (e *env) gate() *cobra.Command {
	c := &cobra.Command{
		Use:               "gate SERVICE | GATE",
		Short:             "Show the current or last run of a Service's gates, with its numbers",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: e.completeGates,
	}
	o := addOutput(c, false)
	c.RunE = e.answers(
		o,
		new(bool),
		func(ctx context.Context, r *reader.Reader, namespace string, args []string) (answer, error) {
			reports, err := e.reporter(r).GateRuns(ctx, namespace, args[0])
			return answer{"GateReport", map[string]any{"gates": reports}, func() { e.showGates(reports) }}, err
		},
	)
	return c
}
