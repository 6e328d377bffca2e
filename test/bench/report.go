// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// report formats the results as Markdown.
type report struct {
	machine  machine
	versions versions
	plan     plan
	results  results
	took     time.Duration
}

func (r report) write(w io.Writer) error {
	p := &page{}
	r.where(p)
	r.scraping(p)
	r.latency(p)
	r.burst(p, "Burst, sink of 1 ms", r.results.Fast)
	r.burst(p, "Burst, sink of 50 ms", r.results.Slow)
	r.outage(p)
	r.drain(p)
	r.memory(p)
	r.idle(p)
	r.serverless(p)
	r.aims(p)
	if _, err := io.WriteString(w, p.text.String()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

func (r report) where(p *page) {
	m, v := r.machine, r.versions
	p.line("- Machine: %d cores (%s), %.0f GiB, Linux %s; load before the run %.1f; the run took %v",
		m.Cores, cmp.Or(m.Processor, "unknown processor"), float64(m.Memory)/(1<<30), m.Kernel, m.Load, r.took.Round(time.Second))
	p.line("- Versions: %s, Kubernetes %s, Knative Eventing %s", v.Go, v.Kubernetes, v.Eventing)
	if v.Service == 0 {
		return
	}
	p.line("- Objects: %d Services with %d Revisions each; a Service has %.1f kB, a Route %.1f kB, a Revision %.1f kB",
		r.plan.Services, r.plan.Revisions, float64(v.Service)/1000, float64(v.Route)/1000, float64(v.Revision)/1000)
}

// of returns the turns of one contestant.
func of(c contestant, all []result) []result {
	var out []result
	for _, r := range all {
		if r.Contestant == c.Name {
			out = append(out, r)
		}
	}
	return out
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

func mebibytes(n uint64) string { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }

// values returns a value of each turn.
func values[T any](turns []T, get func(T) float64) []float64 {
	out := make([]float64, len(turns))
	for i, t := range turns {
		out[i] = get(t)
	}
	return out
}

func median(turns []result, get func(result) float64) float64 {
	return spreadOf(values(turns, get)).Median
}

// others reports the CPU use of everything that is not measured.
func others(all []result) string {
	return "Meanwhile, the rest of the machine used " + spreadOf(values(all, func(r result) float64 {
		return 100 * r.CPU.Others.Seconds() / r.Took.Seconds()
	})).text("%.0f") + " % of a core."
}

func lost(turns []result) string {
	n := 0
	for _, t := range turns {
		n += len(t.Lost)
	}
	return fmt.Sprint(n)
}

// apiWrites are the writes per event over all turns. Kinds with few writes are not listed separately.
func apiWrites(turns []result) string {
	sum, events, by := written(turns)
	if events == 0 || sum == 0 {
		return "0"
	}
	return fmt.Sprintf("%.2f (%s)", float64(sum)/float64(events), writesOf(by))
}

// written sums up the writes and the events over all turns.
func written(turns []result) (sum, events int, by map[string]int) {
	by = map[string]int{}
	for _, t := range turns {
		events += t.Arrived()
		for resource, n := range t.APIWrites {
			by[resource] += n
			sum += n
		}
	}
	return sum, events, by
}

// laterWrites are the writes per event after all were delivered, over all turns.
func laterWrites(turns []result) string {
	events, sum := 0, 0
	for _, t := range turns {
		events += t.Arrived()
		for _, n := range t.LaterWrites {
			sum += n
		}
	}
	return fmt.Sprintf("%.2f", float64(sum)/float64(max(events, 1)))
}

// writesOf lists writes by resource, the most first.
func writesOf(by map[string]int) string {
	kinds := slices.SortedFunc(maps.Keys(by), func(a, b string) int { return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a, b)) })
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%s %d", kind, by[kind])
	}
	return cmp.Or(strings.Join(kinds, ", "), "0")
}

func ratio(a, b float64) string {
	if b == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", a/b)
}
