// SPDX-License-Identifier: Apache-2.0

// Command worlds plays simulated Services with a canary through the whole of what judges one: the pods' expositions,
// attribution.Counts, gaterun.Run and judge, with the defaults of a gate. It prints, for each world, the truth and how
// often which verdict was given, and what the rules of other tools say of the same requests.
//
// Its invariants:
//   - A seed and the number of a run determine everything that happens in a world. No world sees what the judge makes of it.
//   - What is judged comes only from what pods export and from what the controller knows of them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"time"
)

var errPart = errors.New("-write needs the whole table, so it goes neither with -only nor with -rivals=false")

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	runs := flag.Int("runs", 100, "how often each world is played")
	only := flag.String("only", "", "a regular expression; only worlds whose group and name match are played")
	seed := flag.Uint64("seed", 1, "other seeds play other runs")
	parallel := flag.Int("parallel", runtime.GOMAXPROCS(0), "how many runs are played at the same time")
	whole := flag.Bool("text", false, "pass every reading through text, and store and resume the run at every step (slower)")
	others := flag.Bool("rivals", true, "ask the rules of other tools, too, which takes longer")
	why := flag.Bool("why", false, "print the reasons of all verdicts, too")
	page := flag.String("write", "", "a page of the documentation in which the table is replaced")
	flag.Parse()
	if *page != "" && (*only != "" || !*others) {
		return errPart
	}
	some, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("reading -only: %w", err)
	}
	started := time.Now()
	p := player{runs: *runs, seed: *seed, parallel: *parallel, whole: *whole, rivals: *others}
	var rows []row
	for _, w := range worlds() {
		if !some.MatchString(w.group + ": " + w.name) {
			continue
		}
		r, err := p.play(ctx, w)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		fmt.Fprintf(os.Stderr, "%-9s %s\n", time.Since(started).Round(time.Second), r.line())
		if *why {
			fmt.Fprint(os.Stderr, r.why())
		}
		rows = append(rows, r)
	}
	text := fmt.Sprintf("%d runs of each world, from seed %d.\n\n%s", *runs, *seed, table(rows))
	fmt.Print(text)
	if *page == "" {
		return nil
	}
	return write(*page, text)
}
