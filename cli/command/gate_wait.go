// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/knative-cdevents/knative-cdevents/api/plural"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/cli/reader"
	"github.com/knative-cdevents/knative-cdevents/cli/report"
	"github.com/knative-cdevents/knative-cdevents/cli/screen"
)

// ended are the verdicts with which a run can end.
func ended() []verdict.Verdict {
	return slices.DeleteFunc(verdict.All(), func(v verdict.Verdict) bool { return v == verdict.Running })
}

func (e *env) gateWait() *cobra.Command {
	var wish, canary string
	timeout := time.Duration(0)
	c := &cobra.Command{
		Use:        "wait GATE",
		SuggestFor: []string{"awit", "wiat", "wati"}, // two letters in the wrong order
		Short:      "Wait for the end of a gate's run; the exit code says whether the verdict is the one that you want",
		Long: "Waits until the newest run of the gate has ended, and prints each change. If no run has begun yet, it waits for\n" +
			"one. A run that is superseded ends without a verdict: then it waits for the next one, unless --canary is given or\n" +
			"--for names Superseded.\n\n" +
			"After you have moved traffic to a Revision, name it with --canary: until the controller has seen the new split,\n" +
			"the newest run is still the one before.\n\n" +
			"Exit codes: 0 if the run ended with the verdict that you want, 1 if with another one, 2 if the command line is\n" +
			"wrong, 3 if the time ran out or the API server could not be asked, 130 if you pressed Ctrl-C.",
		Example: "  kubectl cdevents gate wait cart-gate -n shop --canary cart-00002 --timeout 20m\n" +
			"  kubectl cdevents gate wait cart-gate --for=verdict=Pass,Warn\n" +
			"  kubectl cdevents gate wait cart-gate --for=verdict    # any verdict",
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(c *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
			return e.names(c, args, begin, gateNames)
		},
	}
	c.Flags().StringVar(&wish, "for", "verdict=Pass", "What to wait for: verdict, or verdict=PASS,WARN with one or more of "+
		verdict.List(ended()))
	c.Flags().StringVar(&canary, "canary", "", "Wait for a run that judges this Revision")
	c.Flags().DurationVar(&timeout, "timeout", 35*time.Minute, "How long to wait; 0 for ever. A run of a gate with the default schedule ends within 30m")
	must(c.RegisterFlagCompletionFunc("for", cobra.FixedCompletions(
		[]string{"verdict", "verdict=Pass", "verdict=Pass,Warn"}, cobra.ShellCompDirectiveNoFileComp)))
	c.RunE = func(c *cobra.Command, args []string) error {
		wished, err := wishes(wish)
		if err != nil {
			return err
		}
		if timeout < 0 {
			return misused("--timeout is %s; it must be a duration such as 20m, or 0", timeout)
		}
		namespace, err := e.namespace()
		if err != nil {
			return err
		}
		r, err := e.reader()
		if err != nil {
			return err
		}
		ctx, cancel := c.Context(), context.CancelFunc(func() {})
		if timeout > 0 {
			ctx, cancel = context.WithTimeout(ctx, timeout)
		}
		defer cancel()
		w := &gateWaiter{
			env: e, name: report.GateName(args[0]), canary: canary,
			superseded: strings.Contains(wish, "=") && slices.Contains(wished, verdict.Superseded),
			done:       make(chan *v1alpha1.GateLatest, 1), gone: make(chan struct{}, 1),
		}
		return w.wait(ctx, r, namespace, wished, timeout)
	}
	return c
}

// wishes reads --for.
func wishes(text string) ([]verdict.Verdict, error) {
	what, of, has := strings.Cut(text, "=")
	if !strings.EqualFold(what, "verdict") {
		return nil, misused("--for=%s is not known; use verdict, or verdict= with one or more of %s", text, verdict.List(ended()))
	}
	if !has {
		return ended(), nil
	}
	var out []verdict.Verdict
	for _, word := range strings.Split(of, ",") {
		i := slices.IndexFunc(ended(), func(v verdict.Verdict) bool { return strings.EqualFold(string(v), word) })
		if i < 0 {
			return nil, misused("--for: %q is not a verdict; use %s", word, verdict.List(ended()))
		}
		out = append(out, ended()[i])
	}
	return out, nil
}

// gateWaiter waits for one gate.
type gateWaiter struct {
	*env
	name, canary string
	// superseded is set if --for names Superseded.
	superseded bool
	done       chan *v1alpha1.GateLatest
	gone       chan struct{}

	mu   sync.Mutex
	said string
	// past are the runs that had ended at the first look.
	past map[string]bool
	// current is the ID of the run that was waited for at the last look.
	current string
	// seen is the version of the gate that was looked at last: the watch may tell of an older one after it.
	seen uint64
}

func (w *gateWaiter) wait(
	ctx context.Context, r *reader.Reader, namespace string, wished []verdict.Verdict, timeout time.Duration,
) error {
	// The feed tells of changes only, so what is there is read in between.
	feed := r.GateFeed(namespace)
	err := feed.Run(ctx, func(c reader.Change) {
		switch g, is := c.New.(*v1alpha1.CanaryGate); {
		case is && g.Name == w.name:
			w.look(g)
		case c.New == nil:
			if old, is := c.Old.(*v1alpha1.CanaryGate); is && old.Name == w.name {
				select {
				case w.gone <- struct{}{}:
				default: // it was deleted before
				}
			}
		}
	}, func(err error) { w.note("note: the API server does not answer, trying again: %v", err) })
	if err != nil && !late(ctx, err) {
		return err
	}
	g, err := r.Gate(ctx, namespace, w.name)
	if err != nil && !late(ctx, err) {
		return err
	}
	if err == nil {
		if !g.Spec.Watch && g.Status.Latest == nil {
			w.note("note: gate %s starts no runs by itself (spec.watch is false); waiting for a CustomRun that refers to it", w.name)
		}
		w.look(g)
	}
	select {
	case run := <-w.done:
		if err := w.Screen.Err(); err != nil {
			return err
		}
		if !slices.Contains(wished, run.Verdict) {
			return no("gate %s judged %s: %s; wished was %s", w.name, run.Canary, run.Verdict, verdict.List(wished))
		}
		return nil
	case <-w.gone:
		return &reader.Error{Kind: reader.ErrNotFound, Message: fmt.Sprintf("gate %s was deleted", w.name)}
	case <-ctx.Done():
		if timeout > 0 && context.Cause(ctx) == context.DeadlineExceeded { //nolint:errorlint // never wrapped
			return fmt.Errorf("the run of gate %s has not ended within %s", w.name, timeout)
		}
		return fmt.Errorf("waiting for gate %s: %w", w.name, ctx.Err())
	}
}

// late reports whether a request failed because the time is over, or would have been: client-go's rate limiter says so
// in advance, with an error of no type.
func late(ctx context.Context, err error) bool {
	return ctx.Err() != nil || strings.Contains(err.Error(), "would exceed context deadline")
}

// look prints what changed, and ends the waiting if the run has ended.
func (w *gateWaiter) look(g *v1alpha1.CanaryGate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	version, err := strconv.ParseUint(g.ResourceVersion, 10, 64)
	if err == nil && version < w.seen {
		return
	}
	w.seen = version
	run := w.newest(g)
	text, style := "no run yet", screen.Plain
	mine := run != nil && (w.canary == "" || run.Canary == w.canary)
	switch {
	case mine:
		text, style = run.Canary+": "+string(run.Verdict), verdictStyle(string(run.Verdict))
		if len(run.Reasons) > 0 {
			text += " (" + strings.Join(run.Reasons, ", ") + ")"
		}
		if m := run.Missing; m != nil && m.CanaryRequests > 0 {
			text += fmt.Sprintf(", %s of the canary needed", plural.Of(m.CanaryRequests, "more request", "more requests"))
		}
	case run != nil:
		text = fmt.Sprintf("no run on %s yet; the newest one is on %s", w.canary, run.Canary)
	}
	if text != w.said {
		w.said = text
		w.Screen.Printf("%s  gate %s  %s\n", w.Screen.Paint(screen.Dim, w.stamp(w.Now())), w.name, w.Screen.Paint(style, text))
	}
	if mine && run.Verdict != verdict.Running && (run.Verdict != verdict.Superseded || w.superseded || w.canary != "") {
		select {
		case w.done <- run:
		default: // it has ended already
		}
	}
}

// newest returns the run to look at. It is the newest one, unless the run that was waited for ended and another one
// began between two looks.
func (w *gateWaiter) newest(g *v1alpha1.CanaryGate) *v1alpha1.GateLatest {
	run := g.Status.Latest
	other := w.canary != "" && (run == nil || run.Canary != w.canary)
	first := w.past == nil
	if first {
		w.past = map[string]bool{}
	}
	for _, p := range g.Status.History {
		switch {
		case first:
			w.past[p.ID] = true
		case w.past[p.ID] || p.Verdict == verdict.Superseded && !w.superseded:
		case p.ID == w.current && (run == nil || run.ID != p.ID), other && p.Canary == w.canary:
			return &v1alpha1.GateLatest{GateRunSummary: p.GateRunSummary}
		}
	}
	if w.current = ""; run != nil && !other {
		w.current = run.ID
	}
	return run
}
