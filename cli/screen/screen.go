// SPDX-License-Identifier: Apache-2.0

// Package screen writes text for people to a terminal or a pipe.
//
// Its invariants: colour and shape only repeat what the words say. What is written to a pipe, or with
// NO_COLOR set, has the same words in the same order. No control character reaches a terminal but those of
// the styles and the ends of lines: what others wrote is escaped.
package screen

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// Style is how a text is shown on a terminal with colours.
type Style string

// The styles. Plain text has none.
const (
	Plain  Style = ""
	Bold   Style = "\x1b[1m"
	Dim    Style = "\x1b[2m"
	Good   Style = "\x1b[32m"
	Bad    Style = "\x1b[31m"
	Unsure Style = "\x1b[33m"
	reset        = "\x1b[0m"
)

// Screen is where a command writes to.
type Screen struct {
	// Out receives the text.
	Out io.Writer
	// Width is the number of columns, or 0 if lines may have any length, as in a pipe.
	Width int
	// Colour specifies whether styles are shown.
	Colour bool
	// ASCII specifies that only ASCII characters are written.
	ASCII bool

	err error
}

// New returns the screen for out. If out is a terminal, its width and the environment variables
// NO_COLOR (https://no-color.org), TERM, LC_ALL, LC_CTYPE and LANG decide how it is used.
func New(out io.Writer, getenv func(string) string) *Screen {
	s := &Screen{Out: out, ASCII: !unicodeLocale(getenv)}
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return s
	}
	s.Colour = getenv("NO_COLOR") == "" && getenv("TERM") != "dumb" && obeysStyles(f)
	if width, _, err := term.GetSize(int(f.Fd())); err == nil {
		s.Width = width
	}
	return s
}

// unicodeLocale reports whether the locale's characters are in UTF-8. A process without a locale, as in
// a container, writes UTF-8, as most programs do.
func unicodeLocale(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := getenv(name); locale != "" {
			locale = strings.ToLower(locale)
			return strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
		}
	}
	return true
}

// Err returns the first error of a write.
func (s *Screen) Err() error { return s.err }

// Printf writes text. The format is written as it is, and texts in the arguments as foreign ones. After an error, it
// writes nothing more.
func (s *Screen) Printf(format string, args ...any) {
	if s.err != nil {
		return
	}
	if _, err := fmt.Fprintf(s.Out, format, Args(args)...); err != nil {
		s.err = fmt.Errorf("writing to the terminal: %w", err)
	}
}

// Painted is a text that may be written as it is.
type Painted string

// Paint returns a foreign text in a style.
func (s *Screen) Paint(style Style, text string) Painted { return s.paint(style, Foreign(text)) }

func (s *Screen) paint(style Style, text string) Painted {
	if !s.Colour || style == Plain || text == "" {
		return Painted(text)
	}
	return Painted(string(style) + text + reset)
}

// Wrapped writes a text behind a label. Its further lines are indented as the first one. A word
// that is longer than a line, such as a URL, is never divided, and neither is a command at the end of the text: a line
// break would be in what a user copies, and a terminal's own is not.
func (s *Screen) Wrapped(label Cell, text string) { s.WrappedCells(label, Text(text)) }

// WrappedCells does the same with a text of several styles. Where one begins, a line may end.
func (s *Screen) WrappedCells(label Cell, texts ...Cell) {
	left := utf8.RuneCountInString(Foreign(label.Text))
	line, used, begun := s.Paint(label.Style, label.Text), left, false
	for _, text := range texts {
		for _, word := range words(Foreign(strings.Join(strings.Fields(text.Text), " "))) { // before line breaks are escaped
			n := utf8.RuneCountInString(word)
			switch {
			case !begun:
				used += n
			case s.Width > 0 && used+1+n > s.Width:
				s.Printf("%s\n", line)
				line, used = Painted(strings.Repeat(" ", left)), left+n
			default:
				line, used = line+" ", used+1+n
			}
			line, begun = line+s.paint(text.Style, word), true
		}
	}
	s.Printf("%s\n", Painted(strings.TrimRight(string(line), " ")))
}

// words divides a text where a line may end.
func words(text string) []string {
	command := ""
	for _, program := range []string{"kubectl ", "kn ", "curl "} {
		if i := strings.LastIndex(text, ": "+program); i >= 0 && len(text)-i-2 > len(command) {
			command = text[i+2:]
		}
	}
	out := strings.Fields(strings.TrimSuffix(text, command))
	if command != "" {
		out = append(out, command)
	}
	return out
}

// cut shortens a text to at most n columns, and shows that something is left out.
func (s *Screen) cut(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	dots := "…"
	if s.ASCII {
		dots = "..."
	}
	runes := []rune(text)
	return string(runes[:max(0, n-utf8.RuneCountInString(dots))]) + dots
}

// Bar draws a part of a whole, from 0 to 1, in that many columns. The number belongs beside it.
func (s *Screen) Bar(part float64, columns int) string {
	filled := 0
	if part > 0 { // not for NaN
		filled = int(min(1, part)*float64(columns) + .5)
	}
	full, empty := "█", "·"
	if s.ASCII {
		full, empty = "#", "."
	}
	return strings.Repeat(full, filled) + strings.Repeat(empty, columns-filled)
}
