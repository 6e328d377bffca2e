// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/knative-cdevents/knative-cdevents/cli/check"
	"github.com/knative-cdevents/knative-cdevents/cli/screen"
)

// checks is what -o json prints.
type checks struct {
	Checks   []check.Result `json:"checks"`
	Failures int            `json:"failures"`
	Warnings int            `json:"warnings"`
}

// election is longer than a leader's lease lasts by default.
const election = 20 * time.Second

func (e *env) check() *cobra.Command {
	var s choice
	c := &cobra.Command{
		Use:   "check",
		Short: "Check this cluster, the installation and your rights",
		Long: "Looks at the versions of Kubernetes and Knative Serving, the custom resources, the controller and its leases, the\n" +
			"webhook, your rights, Serving's request metrics, the sinks of sources, and the clocks. It changes nothing: a\n" +
			"source is created as a dry run only.\n\n" +
			"If a replica is ready and none leads yet, as after an installation, it waits for a leader, 20 seconds at most.\n\n" +
			"Each line is ok, a warning, a failure, or unknown if you may not see it. The exit code is 1 if there is a failure,\n" +
			"and 0 otherwise, also with warnings.",
		Example: "  kubectl cdevents check -n shop\n  kubectl cdevents check -A -o json",
		Args:    cobra.NoArgs,
	}
	s.addAll(c)
	o := addOutput(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		p, err := o.printer()
		if err != nil {
			return err
		}
		namespace, err := e.scope(s.all)
		if err != nil {
			return err
		}
		r, err := e.reader()
		if err != nil {
			return err
		}
		all, err := (&check.Checker{Reader: r, Namespace: namespace, Now: e.Now, Election: election}).Run(c.Context())
		if err != nil {
			return err
		}
		found := checks{all, check.Count(all, check.Failure), check.Count(all, check.Warning)}
		if err := e.give(o, p, answer{kind: "Check", value: found, show: func() { e.showChecks(all) }}); err != nil {
			return err
		}
		if found.Failures > 0 {
			return no("%d of %d checks failed", found.Failures, len(all))
		}
		return nil
	}
	return c
}

func (e *env) showChecks(all []check.Result) {
	styles := map[check.State]screen.Style{
		check.Failure: screen.Bad, check.Warning: screen.Unsure, check.Unknown: screen.Dim, check.OK: screen.Good,
	}
	for _, r := range all {
		label := fmt.Sprintf("%-8s %-17s ", r.State, r.Check)
		e.Screen.Wrapped(screen.Cell{Text: label, Style: styles[r.State]}, r.What)
		if r.Do != "" {
			e.Screen.Wrapped(screen.Text(fmt.Sprintf("%-27s", "")+"do: "), r.Do)
		}
	}
}
