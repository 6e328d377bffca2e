// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// sideBySide counts a Revision's requests by entry and by handling.
type sideBySide struct {
	revision               string
	entered, failedAtEntry int
	handled, failed        int
}

// verdict prints a gate's result and its figures.
func (s *screen) verdict(run *v1alpha1.GateRun) {
	c := red
	if run.Verdict == verdict.Pass {
		c = green
	}
	s.line("  %s  %s", s.paint(c, string(run.Verdict)), strings.Join(run.Reasons, ", "))
	s.line("  %s", run.Message)
	j := run.Report
	if j == nil {
		return
	}
	for _, m := range j.Metrics {
		text := fmt.Sprintf("    %-14s %-12s canary %s, baseline %s", m.Name, m.Verdict, ratio(m.Canary), ratio(m.Baseline))
		if m.P != nil {
			text += fmt.Sprintf(", %s over the shards", pValue(*m.P))
		}
		s.line("%s", text)
	}
	if j.RequiredShare != nil && j.HandledShare != nil {
		s.line("    the Route gives the canary %s, and it handled %s", ratio(j.RequiredShare), ratio(j.HandledShare))
	}
}

// leastP is the smallest p-value that is printed as a number.
const leastP = 0.0001

// pValue formats a p-value as statistics do: never as 0.
func pValue(p float64) string {
	if p < leastP {
		return fmt.Sprintf("p < %.4f", leastP)
	}
	return fmt.Sprintf("p = %.4f", p)
}

// sides prints both views of the same requests.
func (s *screen) sides(rows []sideBySide) {
	s.line("\n  All requests since each Revision started, by where they entered and where they were handled, as the controller" +
		"\n  exports them (canary_entry_requests_total, canary_handled_requests_total):")
	s.line("    %-14s %10s %18s %10s %18s", "Revision", "entered", "failed by entry", "handled", "failed by handling")
	for _, r := range rows {
		s.line("    %-14s %10d %10d %6.2f%% %10d %10d %6.2f%%", r.revision, r.entered, r.failedAtEntry, percent(r.failedAtEntry, r.entered),
			r.handled, r.failed, percent(r.failed, r.handled))
	}
	s.line("  An ingress or queue-proxy sees only the left half, where the good Revision looks as bad as the bad one.")
}

func percent(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

func ratio(v *float64) string {
	if v == nil {
		return "unknown"
	}
	return fmt.Sprintf("%.2f %%", 100**v)
}
