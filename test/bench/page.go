// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

// page is a Markdown page under construction.
type page struct{ text strings.Builder }

func (p *page) line(format string, args ...any) { fmt.Fprintf(&p.text, format+"\n", args...) }

func (p *page) head(format string, args ...any) {
	fmt.Fprintf(&p.text, "\n### "+format+"\n\n", args...)
}

func (p *page) row(cells ...string) { p.line("| %s |", strings.Join(cells, " | ")) }

// rule ends the head of a table: the first column is left-aligned, the others right-aligned.
func (p *page) rule(columns int) { p.line("|---%s|", strings.Repeat("|---:", columns-1)) }

// text formats the median, and the range if there were repeats.
func (s spread[T]) text(format string) string {
	if s.Of < 2 {
		return fmt.Sprintf(format, s.Median)
	}
	return fmt.Sprintf(format+" ("+format+"–"+format+")", s.Median, s.Min, s.Max)
}
