// SPDX-License-Identifier: Apache-2.0

package screen

import (
	"strings"
	"unicode/utf8"
)

// Table has a title for each column, and rows of cells.
type Table struct {
	Titles []string
	// Least is to how many columns of the terminal each column of the table may be shortened, 0 if not at all. A
	// column of Optional is left out of a table that is still too wide.
	Least []int
	rows  [][]Cell
}

// Cell is a text and its style.
type Cell struct {
	Text  string
	Style Style
}

// Text returns a cell in plain style.
func Text(text string) Cell { return Cell{Text: text} }

// Optional is the Least of a column that may be left out.
const Optional = -1

// Add adds a row of foreign texts.
func (t *Table) Add(cells ...Cell) {
	for i := range cells {
		cells[i].Text = Foreign(cells[i].Text) // before it is measured
	}
	t.rows = append(t.rows, cells)
}

// Empty reports whether the table has no rows.
func (t *Table) Empty() bool { return len(t.rows) == 0 }

// Hide leaves out the column with this title.
func (t *Table) Hide(title string) {
	for c, has := range t.Titles {
		if has == title {
			for _, row := range t.rows {
				row[c].Text = ""
			}
		}
	}
}

// gap separates columns, as kubectl does.
const gap = 3

// Table writes a table. If it is wider than the terminal, the widest columns that may be shortened are.
// A column without any text is left out.
func (s *Screen) Table(t *Table) {
	widths := t.widths()
	s.fit(t, widths)
	for i, row := range append([][]Cell{t.head()}, t.rows...) {
		var line strings.Builder
		for c, cell := range row {
			if widths[c] == 0 {
				continue
			}
			text := s.cut(cell.Text, widths[c])
			style := cell.Style
			if i == 0 {
				style = Plain
			}
			line.WriteString(string(s.Paint(style, text)))
			line.WriteString(strings.Repeat(" ", widths[c]-utf8.RuneCountInString(text)+gap))
		}
		s.Printf("%s\n", Painted(strings.TrimRight(line.String(), " ")))
	}
}

func (t *Table) head() []Cell {
	var out []Cell
	for _, title := range t.Titles {
		out = append(out, Text(title))
	}
	return out
}

// widths returns how wide each column is, 0 if no row has text in it.
func (t *Table) widths() []int {
	out := make([]int, len(t.Titles))
	for c := range out {
		for _, row := range t.rows {
			out[c] = max(out[c], utf8.RuneCountInString(row[c].Text))
		}
		if out[c] > 0 {
			out[c] = max(out[c], utf8.RuneCountInString(t.Titles[c]))
		}
	}
	return out
}

// fit shortens columns, the widest first, until the table fits. If that is not enough, it leaves out the last
// optional column.
func (s *Screen) fit(t *Table, widths []int) {
	if s.Width <= 0 || t.Least == nil {
		return
	}
	for full(widths) > s.Width {
		widest, optional := -1, -1
		for c, w := range widths {
			if t.Least[c] == Optional && w > 0 {
				optional = c
			}
			if least := max(t.Least[c], utf8.RuneCountInString(t.Titles[c])); t.Least[c] > 0 && w > least &&
				(widest < 0 || w > widths[widest]) {
				widest = c
			}
		}
		switch {
		case widest >= 0:
			widths[widest]--
		case optional >= 0:
			copy(widths, t.widths())
			t.Least[optional] = 0
			t.Hide(t.Titles[optional])
			widths[optional] = 0
		default:
			return
		}
	}
}

// full is how wide a table with these columns is.
func full(widths []int) int {
	total := -gap
	for _, w := range widths {
		if w > 0 {
			total += w + gap
		}
	}
	return total
}
