// SPDX-License-Identifier: Apache-2.0

package screen

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
)

func env(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

func TestPipeHasNoColourAndNoWidth(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = read.Close(), write.Close() }()
	if s := New(write, env(nil)); s.Colour || s.Width != 0 || s.ASCII {
		t.Errorf("%+v", s)
	}
	if s := New(write, env(map[string]string{"LC_ALL": "C", "LANG": "en_US.UTF-8"})); !s.ASCII {
		t.Error("locale C has more than ASCII")
	}
}

func TestTableFitsTheTerminal(t *testing.T) {
	for _, width := range []int{0, 28, 20} {
		var out bytes.Buffer
		s := &Screen{Out: &out, Width: width}
		table := &Table{Titles: []string{"NAME", "NONE", "SPLIT", "LAST"}, Least: []int{6, 0, 6, Optional}}
		table.Add(Text("checkout"), Text(""), Text("90 % a, 10 % b"), Text("yesterday"))
		s.Table(table)
		for line := range strings.Lines(out.String()) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); width > 0 && n > width {
				t.Errorf("%d columns on a terminal of %d: %q", n, width, line)
			}
		}
		if has := strings.Contains(out.String(), "yesterday"); has != (width != 20) {
			t.Errorf("width %d:\n%s", width, out.String())
		}
		if strings.Contains(out.String(), "NONE") {
			t.Errorf("an empty column is shown:\n%s", out.String())
		}
	}
}

func TestStylesAddNothing(t *testing.T) {
	show := func(colour bool) string {
		var out bytes.Buffer
		s := &Screen{Out: &out, Width: 30, Colour: colour}
		table := &Table{Titles: []string{"READY"}}
		table.Add(Cell{Text: "False", Style: Bad})
		s.Table(table)
		s.Wrapped(Cell{Text: "  broken ", Style: Bad}, "a long sentence that needs more than one line")
		s.WrappedCells(Text("  before "), Cell{Text: "Inconclusive: Timeout", Style: Unsure}, Text("on cart-00002"))
		return out.String()
	}
	plain := show(true)
	for _, style := range []Style{Bad, Unsure, reset} {
		plain = strings.ReplaceAll(plain, string(style), "")
	}
	if plain != show(false) || !strings.HasSuffix(plain, "\n  before Inconclusive: Timeout\n         on cart-00002\n") {
		t.Errorf("with colours:\n%s\nwithout:\n%s", plain, show(false))
	}
}

func TestBar(t *testing.T) {
	s := &Screen{ASCII: true}
	for part, want := range map[float64]string{0: "....", .5: "##..", 1: "####", 7: "####", -1: "...."} {
		if got := s.Bar(part, 4); got != want {
			t.Errorf("%v is %s", part, got)
		}
	}
}

// What others wrote never reaches a terminal as it is, whichever way it is written.
func TestForeignTextIsEscaped(t *testing.T) {
	const foreign = "not ready: \x1b]0;owned\x07\x1b[2J\rall is\nwell\u009b31m\u202e"
	var out bytes.Buffer
	s := &Screen{Out: &out, Width: 200, Colour: true}
	table := &Table{Titles: []string{"WHEN", "WHAT"}, Least: []int{0, 0}}
	table.Add(Text("now"), Cell{Text: foreign, Style: Bad})
	s.Table(table)
	s.Wrapped(Cell{Text: foreign, Style: Bold}, foreign)
	s.Printf("%s %v %s\n", foreign, errors.New(foreign), s.Paint(Good, foreign))
	text := out.String()
	for _, style := range []Style{Bold, Good, Bad, reset} {
		text = strings.ReplaceAll(text, string(style), "")
	}
	if strings.ContainsAny(text, "\x1b\x07\r\u009b\u202e") || strings.Count(text, "\n") != 4 {
		t.Errorf("%q", text)
	}
	if n := strings.Count(text, `\x1b]0;owned\a\x1b[2J\rall is\nwell\u009b31m\u202e`); n != 5 {
		t.Errorf("it is shown %d times:\n%s", n, text)
	}
}

// A line break in a command would be copied with it, and a shell would run two.
func TestACommandStaysOnOneLine(t *testing.T) {
	t.Parallel()
	const command = `kubectl patch ksvc cart -n shop --type merge -p '{"spec":{"traffic":[]}}'`
	var out bytes.Buffer
	(&Screen{Out: &out, Width: 40}).Wrapped(Text("  do  "), "Give its traffic to the Revision that had it before: "+command)
	if want := "  do  Give its traffic to the Revision\n      that had it before:\n      " + command + "\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
