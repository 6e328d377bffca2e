// SPDX-License-Identifier: Apache-2.0

// Package report shows the progress of the cluster program to the user.
//
// Invariant: it writes to standard error only, so that standard output contains nothing but results for
// scripts, and every step that begins also ends, done or failed, with its duration.
package report

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// beat is how long a step stays silent before it reports that it is still running.
const beat = 20 * time.Second

// Reporter prints steps: a line when each begins, one when it ends, and some in between.
type Reporter struct {
	mu  sync.Mutex
	out io.Writer
}

// New returns a Reporter that writes to out.
func New(out io.Writer) *Reporter {
	return &Reporter{out: out}
}

// Say prints one line.
func (r *Reporter) Say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// A progress line that cannot be printed is no reason to stop building a cluster.
	_, _ = fmt.Fprintf(r.out, "%s  %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
}

// Step is an operation that takes time.
type Step struct {
	r     *Reporter
	name  string
	began time.Time
	stop  chan struct{}
	once  sync.Once

	mu   sync.Mutex
	note string
}

// Begin announces a step; note says where to look in the meantime, such as the log's path.
func (r *Reporter) Begin(name, note string) *Step {
	s := &Step{r: r, name: name, note: note, began: time.Now(), stop: make(chan struct{})}
	r.Say("%s …%s", name, aside(note))
	go s.remind()
	return s
}

// Note replaces the note in the reminders.
func (s *Step) Note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note = fmt.Sprintf(format, args...)
}

// End ends the step: if err is nil, it prints the duration, otherwise that the step failed. It returns err,
// so that a caller can write "return step.End(err)".
func (s *Step) End(err error) error {
	s.once.Do(func() {
		close(s.stop)
		word := "done"
		if err != nil {
			word = "FAILED"
		}
		s.r.Say("%s %s in %s", s.name, word, took(s.began))
	})
	return err
}

func (s *Step) remind() {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
			s.mu.Lock()
			note := s.note
			s.mu.Unlock()
			s.r.Say("%s still running after %s%s", s.name, took(s.began), aside(note))
		}
	}
}

func aside(note string) string {
	if note == "" {
		return ""
	}
	return "  (" + note + ")"
}

func took(since time.Time) time.Duration {
	d := time.Since(since)
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}
