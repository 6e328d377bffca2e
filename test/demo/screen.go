// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// colourful reports whether to use colours: on a terminal, unless its owner objects (https://no-color.org).
func colourful(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

type style string

const (
	bold   style = "\x1b[1m"
	dim    style = "\x1b[2m"
	red    style = "\x1b[31m"
	green  style = "\x1b[32m"
	yellow style = "\x1b[33m"
	cyan   style = "\x1b[36m"
	reset        = "\x1b[0m"
)

// screen prints whole lines; steps and events come from different goroutines.
type screen struct {
	mu     sync.Mutex
	out    io.Writer
	colour bool
	step   string
	began  time.Time
}

func newScreen(out io.Writer, colour bool) *screen {
	return &screen{out: out, colour: colour, began: time.Now()}
}

func (s *screen) paint(c style, text string) string {
	if !s.colour || text == "" {
		return text
	}
	return string(c) + text + reset
}

func (s *screen) line(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Output errors do not stop the demo, so that it leaves nothing half done.
	_, _ = fmt.Fprintf(s.out, format+"\n", args...)
}

// chapter starts a part of the story.
func (s *screen) chapter(title string) {
	s.mu.Lock()
	s.step = title
	s.mu.Unlock()
	s.line("\n%s", s.paint(bold, title))
}

// doing announces a step; the returned function reports how long it took.
func (s *screen) doing(what string) (done func(result string)) {
	began := time.Now()
	s.line("  %s  %s …", clock(began), what)
	return func(result string) {
		s.line("  %s  %s %s  %s", clock(time.Now()), s.paint(green, "done:"), result, s.paint(dim, took(began)))
	}
}

// note is an aside.
func (s *screen) note(format string, args ...any) { s.line("  %s", fmt.Sprintf(format, args...)) }

// command shows the equivalent command.
func (s *screen) command(text string) { s.line("  %s", s.paint(dim, "$ "+text)) }

// event prints an event in three lines: time and meaning, type and subject, and artifact.
func (s *screen) event(e announced) {
	c := green
	switch e.short {
	case "service.rolledback", "service.removed":
		c = yellow
	case "traffic.shifted", "revision.ready":
		c = cyan
	}
	var b strings.Builder
	fmt.Fprintf(&b, "  %s  %s  %s", clock(e.at), s.paint(c, fmt.Sprintf("● %-19s", e.short)), e.story)
	fmt.Fprintf(&b, "\n            %s", s.paint(dim, fmt.Sprintf("%-21s type %s, subject %s", "", e.typ, e.subject)))
	if e.artifact != "" {
		fmt.Fprintf(&b, "\n            %s", s.paint(dim, fmt.Sprintf("%-21s artifact %s", "", artifact(e.artifact))))
	}
	s.line("%s", b.String())
}

// traffic prints a client's measurement, with a bar for each Revision.
func (s *screen) traffic(m measured) {
	s.line("  %s  %s", clock(time.Now()), fmt.Sprintf("measured by the client: %d requests in %s, %s",
		m.requests, m.during.Round(100*time.Millisecond), s.errors(m.errors)))
	for _, r := range m.shares {
		width := int(r.share*20 + 0.5)
		s.line("            %s%s %5.1f %%  %s", s.paint(cyan, strings.Repeat("█", width)), strings.Repeat("·", 20-width), 100*r.share, r.name)
	}
}

func (s *screen) errors(n int) string {
	if n == 0 {
		return "no errors"
	}
	return s.paint(red, fmt.Sprintf("%d errors", n))
}

// failed prints where the demo stopped, and why.
func (s *screen) failed(err error) {
	s.mu.Lock()
	step := s.step
	s.mu.Unlock()
	if step == "" {
		step = "the start"
	}
	s.line("\n%s at “%s” after %s:\n%v", s.paint(red, "The demo stopped"), step, took(s.began), err)
}

// indented prints another program's lines, indented below the step.
type indented struct {
	s    *screen
	rest string
}

// Write implements io.Writer.
func (w *indented) Write(p []byte) (int, error) {
	w.rest += string(p)
	for {
		line, rest, ok := strings.Cut(w.rest, "\n")
		if !ok {
			return len(p), nil
		}
		w.rest = rest
		w.s.line("  %s", w.s.paint(dim, line))
	}
}

func clock(t time.Time) string { return t.Local().Format("15:04:05") }

func took(since time.Time) string {
	d := time.Since(since)
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
