// SPDX-License-Identifier: Apache-2.0

// Command bench compares the controller with Knative's ApiServerSource and with a minimal program, on one API server
// with the same changes and the same sink, and with Prometheus on the same pods. It reports the costs of each.
//
// Invariant: all of them are real programs, built as shipped and run one at a time, except for scraping and for
// programs at rest, which run at once. Every number is measured in this run, and every ratio compares two numbers of
// this run. Serving and the kubelet do not run: the bench writes what Serving's controllers would, and nothing else
// happens in the cluster.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type options struct {
	programs, config, report string
	run                      []string
	short                    bool
	// idlers and idleFor replace those of the plan, unless they are zero.
	idlers  []int
	idleFor time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.programs, "programs", "bin/bench", "directory with the programs to compare")
	flag.StringVar(&o.config, "config", "config", "directory with the ConfigMaps of the controller")
	flag.StringVar(&o.report, "report", "bin/bench/report.md", "file to write the report to")
	flag.BoolVar(&o.short, "short", false, "run a short version; its numbers are not meaningful")
	run := flag.String("run", strings.Join(scenarioNames(), ","), "scenarios to run, separated by commas")
	flag.DurationVar(&o.idleFor, "rest-for", 0, "how long scenario rest watches, instead of the usual time")
	flag.Func("rest-services", "numbers of Services in scenario rest, ascending and separated by commas, instead of the usual ones", o.setIdlers)
	flag.Parse()
	o.run = strings.Split(*run, ",")

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := o.play(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (o *options) setIdlers(list string) error {
	o.idlers = nil
	for _, text := range strings.Split(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("reading a number of Services: %w", err)
		}
		if n <= 0 || len(o.idlers) > 0 && n < o.idlers[len(o.idlers)-1] {
			return fmt.Errorf("%s: the numbers must be positive and ascend", list)
		}
		o.idlers = append(o.idlers, n)
	}
	return nil
}

func (o options) play(ctx context.Context) (err error) {
	names := scenarioNames()
	for _, name := range o.run {
		if !slices.Contains(names, name) {
			return fmt.Errorf("there is no scenario %q; there are %s", name, strings.Join(names, ", "))
		}
	}
	began := time.Now()
	say := func(format string, args ...any) {
		fmt.Printf("%6s  %s\n", time.Since(began).Round(time.Second), fmt.Sprintf(format, args...))
	}
	m, err := thisMachine()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return fmt.Errorf("creating a folder for logs: %w", err)
	}
	defer func() {
		if err == nil {
			err = os.RemoveAll(dir)
		} else {
			err = fmt.Errorf("%w\nthe logs are in %s", err, dir)
		}
	}()
	say("starting etcd and kube-apiserver")
	s, err := newStage(ctx, o.programs, o.config, dir, say)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	b := &bench{stage: s, plan: whole}
	if o.short {
		b.plan = brief
	}
	if b.plan.IdleFor = cmp.Or(o.idleFor, b.plan.IdleFor); len(o.idlers) > 0 {
		b.plan.Idlers = o.idlers
	}
	err = o.scenarios(ctx, b)
	v, failed := s.versions(ctx)
	if failed != nil {
		return errors.Join(err, failed)
	}
	// Report the results from before a scenario failed, too.
	return errors.Join(err, o.write(func(w io.Writer) error {
		return report{machine: m, versions: v, plan: b.plan, results: b.results, took: time.Since(began)}.write(w)
	}))
}

func (o options) scenarios(ctx context.Context, b *bench) error {
	for _, next := range scenarios {
		if !slices.Contains(o.run, next.name) {
			continue
		}
		if !next.own && b.cast.probe == nil {
			b.say("writing %d Services with %d Revisions each", b.plan.Services, b.plan.Revisions)
			if err := b.prepare(ctx); err != nil {
				return err
			}
		}
		b.say("scenario %s", next.name)
		if err := next.run(b, ctx); err != nil {
			return fmt.Errorf("scenario %s: %w", next.name, err)
		}
	}
	return nil
}

// write writes the report to the terminal and to a file.
func (o options) write(report func(io.Writer) error) error {
	f, err := os.Create(o.report)
	if err != nil {
		return fmt.Errorf("creating the report's file: %w", err)
	}
	if err := errors.Join(report(io.MultiWriter(os.Stdout, f)), f.Close()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
