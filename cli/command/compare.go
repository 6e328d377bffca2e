// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/knative-cdevents/knative-cdevents/canary/rivals/argo"
	"github.com/knative-cdevents/knative-cdevents/canary/rivals/flagger"
	"github.com/knative-cdevents/knative-cdevents/cli/compare"
	"github.com/knative-cdevents/knative-cdevents/cli/report"
	"github.com/knative-cdevents/knative-cdevents/cli/screen"
)

func (e *env) compare() *cobra.Command {
	s, file, kayentaFor := choice{since: 14 * 24 * time.Hour}, "", 30*time.Minute
	c := &cobra.Command{
		Use:   "compare [SERVICE]",
		Short: "Show what Flagger, Argo Rollouts and Kayenta would have decided on the same traffic",
		Long: "Applies the rules of other tools to what finished runs of gates measured, and shows what became of each release.\n" +
			"The rules are the defaults of each tool's documentation, or those of a Canary or an AnalysisTemplate.",
		Args: cobra.MaximumNArgs(1),
		Example: "  kubectl cdevents compare -n shop --since 14d\n" +
			"  kubectl cdevents compare cart -n shop -f canary.yaml",
		ValidArgsFunction: e.completeServices,
	}
	s.addAll(c)
	c.Flags().Var((*span)(&s.since), "since", "How far back to look, such as 36h or 14d; runs are kept for at most 28d")
	c.Flags().StringVarP(&file, "filename", "f", "", "A file with a Canary of Flagger or an AnalysisTemplate of Argo Rollouts")
	c.Flags().DurationVar(&kayentaFor, "kayenta-lifetime", kayentaFor, "How long Kayenta compares; it has no default")
	o := addOutput(c, formatWide)
	c.RunE = e.answers(o, &s, func(
		ctx context.Context, r *report.Reporter, namespace string, args []string,
	) (answer, error) {
		if kayentaFor < time.Minute {
			return answer{}, misused("--kayenta-lifetime is %v; it must be a minute or more, because Kayenta has one value a minute", kayentaFor)
		}
		rules, left := compare.Documented(kayentaFor), []string(nil)
		if file != "" {
			var err error
			if left, err = readRules(file, &rules); err != nil {
				return answer{}, misused("-f %s: %w", file, err)
			}
		}
		found, err := r.Compare(ctx, namespace, strings.Join(args, ""), e.Now().UTC().Add(-s.since), rules)
		if err != nil {
			return answer{}, err
		}
		for _, l := range left {
			found.Notes = append(found.Notes, "left out of "+file+": "+l)
		}
		if file != "" {
			found.Rules += "; those of " + file + ", and otherwise the defaults of their documentation"
		} else {
			found.Rules += "; the defaults of their documentation"
		}
		show := func() { e.showComparison(found, namespace, o.is(formatWide)) }
		return answer{kind: "Comparison", value: found, show: show}, nil
	})
	return c
}

// readRules reads the rules of one tool, and returns what cannot be computed.
func readRules(file string, to *compare.Rules) (left []string, err error) {
	raw, err := os.ReadFile(file) //nolint:gosec // the user chooses it
	if err != nil {
		return nil, fmt.Errorf("reading the rules: %w", err)
	}
	var is struct {
		Kind string `json:"kind"`
	}
	if err := yaml.Unmarshal(raw, &is); err != nil {
		return nil, fmt.Errorf("reading the rules: %w", err)
	}
	switch is.Kind {
	case "Canary":
		to.Flagger, left, err = flagger.Read(raw)
	case "AnalysisTemplate", "ClusterAnalysisTemplate":
		to.Argo, left, err = argo.Read(raw)
	default:
		err = fmt.Errorf("kind %q is not known; use a Canary of Flagger or an AnalysisTemplate of Argo Rollouts, one in a file", is.Kind)
	}
	return left, err //nolint:wrapcheck // the error is complete
}

func (e *env) showComparison(c *compare.Comparison, namespace string, wide bool) {
	for _, n := range c.Notes {
		e.note("note: %s", n)
	}
	if len(c.Rows) == 0 {
		e.note("No finished run of a gate has been kept since %s%s", e.stamp(c.Since), in(namespace))
		return
	}
	t := &screen.Table{
		Titles: []string{"NAMESPACE", "CANARY", "ENDED", "GATE", "FLAGGER", "ARGO", "KAYENTA", "AFTERWARDS"},
		Least:  []int{8, 10, 0, 8, 8, 8, 8, 10},
	}
	for i := range c.Rows {
		r := &c.Rows[i]
		name := r.Canary
		if r.Sharded {
			name += "*"
		}
		cells := []screen.Cell{screen.Text(r.Namespace), screen.Text(name), screen.Text(e.age(r.End) + " ago")}
		for _, o := range append([]compare.Opinion{r.Ours}, r.Others...) {
			cells = append(cells, opinion(o, wide))
		}
		t.Add(append(cells, screen.Text(string(r.Afterwards)))...)
	}
	if namespace != "" {
		t.Hide("NAMESPACE")
	}
	e.Screen.Table(t)
	e.Screen.Printf("\n")
	t = &screen.Table{Titles: []string{"TOOL", "AS THE GATE", "STOPPED, KEPT LATER", "PASSED, BAD LATER", "UNDECIDED", "NO DATA"}}
	for _, of := range c.Totals {
		cells := []screen.Cell{screen.Text(of.Tool)}
		for _, n := range []int{of.Agreed, of.StoppedKept, of.PassedBad, of.Undecided, of.NoData} {
			cells = append(cells, screen.Text(strconv.Itoa(n)))
		}
		t.Add(cells...)
	}
	e.Screen.Table(t)
	e.Screen.Printf("\n")
	for i := range c.Rows {
		if r := &c.Rows[i]; len(r.Look) > 0 {
			e.Screen.Wrapped(screen.Cell{Text: "look    ", Style: screen.Unsure}, fmt.Sprintf("%s (%s): %s", r.Canary, r.Ours.Verdict, strings.Join(r.Look, "; ")))
		}
	}
	e.Screen.Wrapped(screen.Text("rules   "), c.Rules)
	for _, limit := range c.Limits {
		e.Screen.Wrapped(screen.Text("limit   "), limit)
	}
}

// opinion says what a tool decided, after how many minutes and, if wide, requests of the canary.
func opinion(o compare.Opinion, wide bool) screen.Cell {
	text, style := string(o.Decision), screen.Unsure
	switch {
	case o.Tool == compare.Gate:
		text, style = o.Verdict, verdictStyle(o.Verdict)
	case o.Decision == compare.NoData:
		return screen.Cell{Text: "no data: " + o.Verdict, Style: style}
	case o.Decision == compare.Undecided:
		text = "undecided"
	default:
		style = verdictStyle(text)
	}
	if wide {
		return screen.Cell{Text: fmt.Sprintf("%s %vm, %.0f requests", text, o.Minutes, o.Requests), Style: style}
	}
	return screen.Cell{Text: fmt.Sprintf("%s %vm", text, o.Minutes), Style: style}
}
