// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// verdicts are the columns of a tool.
var verdicts = []verdict.Verdict{verdict.Fail, verdict.Pass, verdict.Warn, verdict.Inconclusive}

// count is how many runs had a verdict.
func (r row) count(of func(o outcome) verdict.Verdict, v verdict.Verdict) int {
	n := 0
	for _, o := range r.outcomes {
		if of(o) == v {
			n++
		}
	}
	return n
}

// other is the verdict of another tool, if it was asked.
func (o outcome) other(i int) verdict.Verdict {
	if i >= len(o.others) {
		return ""
	}
	return o.others[i]
}

func ours(o outcome) verdict.Verdict { return o.verdict }

// wilson returns the interval of Wilson, for 95 %.
func wilson(n, of int) (low, high float64) {
	const z = 1.959964
	p, m := float64(n)/float64(of), float64(of)
	middle, half := p+z*z/(2*m), z*math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return max(0, (middle-half)/(1+z*z/m)), min(1, (middle+half)/(1+z*z/m))
}

// interval formats a share with its interval.
func interval(n, of int) string {
	low, high := wilson(n, of)
	if n == 0 {
		return fmt.Sprintf("0 [≤ %s]", digits(high))
	}
	return fmt.Sprintf("%s [%s–%s]", digits(float64(n)/float64(of)), digits(low), digits(high))
}

// digits formats a share as percent, without a superfluous zero.
func digits(share float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", 100*share), ".0")
}

func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func (r row) medians() (requests, minutes float64) {
	var n, m []float64
	for _, o := range r.outcomes {
		n, m = append(n, o.requests), append(m, o.minutes)
	}
	return median(n), median(m)
}

func (r row) truth() string {
	if r.bad {
		return "bad"
	}
	return "healthy"
}

// line is one row for people who wait.
func (r row) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-8s%-28s %-64s", r.truth(), r.group, r.name)
	for _, v := range verdicts {
		fmt.Fprintf(&b, " %s %5s", v, digits(float64(r.count(ours, v))/float64(len(r.outcomes))))
	}
	requests, minutes := r.medians()
	fmt.Fprintf(&b, "  %.0f requests, %.1f min", requests, minutes)
	for i, other := range rivals {
		fmt.Fprintf(&b, "; %s: %s", other.name, r.rival(i))
	}
	return b.String()
}

// why counts the reasons of each verdict.
func (r row) why() string {
	by := map[string]int{}
	for _, o := range r.outcomes {
		by[string(o.verdict)+" "+strings.Join(o.reasons, ", ")]++
	}
	var b strings.Builder
	for _, k := range slices.SortedFunc(maps.Keys(by), func(x, y string) int { return cmp.Or(by[y]-by[x], cmp.Compare(x, y)) }) {
		fmt.Fprintf(&b, "            %4d %s\n", by[k], k)
	}
	fmt.Fprintf(&b, "            first: %s\n", r.outcomes[0].message)
	return b.String()
}

// table is the table as Markdown.
func table(rows []row) string {
	var b strings.Builder
	b.WriteString("| truth | world | Fail | Pass | Warn | Inconclusive | requests | minutes |")
	for _, r := range rivals {
		b.WriteString(" " + r.name + " |")
	}
	b.WriteString("\n|---|---|---|---|---|---|---:|---:|" + strings.Repeat("---|", len(rivals)) + "\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s: %s |", r.truth(), r.group, r.name)
		for _, v := range verdicts {
			b.WriteString(" " + interval(r.count(ours, v), len(r.outcomes)) + " |")
		}
		requests, minutes := r.medians()
		fmt.Fprintf(&b, " %.0f | %.1f |", requests, minutes)
		for i := range rivals {
			b.WriteString(" " + r.rival(i) + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// rival formats the verdicts of another tool.
func (r row) rival(i int) string {
	var out []string
	for _, v := range verdicts {
		if n := r.count(func(o outcome) verdict.Verdict { return o.other(i) }, v); n > 0 {
			out = append(out, fmt.Sprintf("%s %s", v, digits(float64(n)/float64(len(r.outcomes)))))
		}
	}
	return strings.Join(out, ", ")
}
