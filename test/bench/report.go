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
	r.definitions(p)
	r.scraping(p)
	r.latency(p)
	r.burst(p, "Burst, sink of 1 ms", r.results.Fast)
	r.burst(p, "Burst, sink of 50 ms", r.results.Slow)
	r.outage(p)
	r.drain(p)
	r.memory(p)
	r.idle(p)
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

func (r report) latency(p *page) {
	all := r.results.Latency
	if len(all) == 0 {
		return
	}
	p.head("Latency at %d changes/s", r.plan.Pace)
	p.row("program", "p50 ms", "p99 ms", "p99 to bare", "a change's own write: p50 ms", "p99 ms", "API writes per event", "and later, until at rest", "lost")
	p.rule(9)
	for _, c := range contestants {
		turns := of(c, all)
		p.row(c.Name, durations(turns, p50), durations(turns, p99), ratio(median(turns, p99), median(of(bare, all), p99)),
			durations(turns, writeP50), durations(turns, writeP99), apiWrites(turns), laterWrites(turns), lost(turns))
	}
	p.line("")
	p.line("Median of %d repeats of %d changes, with the lowest and the highest in brackets. %s", r.plan.PaceRepeats, all[0].Changes, others(all))
}

func (r report) burst(p *page, title string, all []result) {
	if len(all) == 0 {
		return
	}
	p.head("%s: %d changes", title, all[0].Changes)
	p.row("program", "events/s", "to ApiServerSource", "arrived in time", "changes/s", "API writes per event", "and later, until at rest",
		"CPU s per 10,000 events: program", "API server", "etcd", "bench and sink")
	p.rule(11)
	for _, c := range contestants {
		turns := of(c, all)
		p.row(c.Name, numbers(turns, result.Rate), ratio(median(turns, result.Rate), median(of(apiServerSource, all), result.Rate)),
			numbers(turns, func(r result) float64 { return float64(r.Arrived()) }), numbers(turns, changeRate),
			apiWrites(turns), laterWrites(turns),
			numbers(turns, perTenThousand(func(c cpu) time.Duration { return c.Program })),
			numbers(turns, perTenThousand(func(c cpu) time.Duration { return c.APIServer })),
			numbers(turns, perTenThousand(func(c cpu) time.Duration { return c.Etcd })),
			numbers(turns, perTenThousand(func(c cpu) time.Duration { return c.Bench })))
	}
	p.line("")
	p.line("\"In time\" means within %v of the first change. The lowest and the highest of the repeats are in brackets. %s", r.plan.BurstFor, others(all))
}

func (r report) outage(p *page) {
	if len(r.results.Outage) == 0 {
		return
	}
	l := r.plan
	p.head("Outage of %v at %d changes/s, with a kill after %v of it", l.Heals-l.Breaks, l.OutagePace, l.Kill-l.Breaks)
	p.row("program", "changes", "lost", "delivered twice", "requests refused by the sink")
	p.rule(5)
	for _, t := range r.results.Outage {
		p.row(t.Contestant, fmt.Sprint(t.Changes), fmt.Sprint(len(t.Lost)), fmt.Sprint(t.Repeated), fmt.Sprint(t.Refused))
	}
}

func (r report) drain(p *page) {
	d := r.results.Drain
	if d == nil {
		return
	}
	p.head("Draining %d pending events, sink of 1 ms", d.Pending)
	p.row("program", "from the sink's recovery", "from the first event", "events/s", "lost")
	p.rule(5)
	took := d.Last.Sub(d.Began)
	p.row(d.Contestant, seconds(d.Last.Sub(d.Healed)), seconds(took), fmt.Sprintf("%.0f", float64(d.Arrived())/took.Seconds()), fmt.Sprint(len(d.Lost)))
	p.line("")
	p.line("The other two programs keep no events, so they have nothing to drain.")
}

func (r report) memory(p *page) {
	all := r.results.Memory
	if len(all) == 0 {
		return
	}
	p.head("Memory with %d Services and %d Revisions", all[0].Services, all[0].Revisions)
	p.row("program", "resident", "to bare", "peak while starting")
	p.rule(4)
	for _, f := range all {
		p.row(f.Contestant, mebibytes(f.Resident), ratio(float64(f.Resident), float64(r.footprint(bare))), mebibytes(f.Peak))
	}
	p.line("")
	p.line("Read %v after the last program has started. The bare program keeps whole Services, Routes and Revisions, as typed informers do.", r.plan.Settle)
}

func (r report) idle(p *page) {
	all := r.results.Idle
	if len(all) == 0 {
		return
	}
	p.head("At rest: no pod, no request and no change, for %v", all[0].Window.Round(time.Second))
	p.row("program", "Services", "Revisions", "cores", "resident at the start", "at the end", "to bare", "API writes")
	p.rule(8)
	for i, s := range all {
		floor := uint64(0)
		for _, other := range all[max(0, i-1):min(len(all), i+2)] {
			if other.Services == s.Services && other.Contestant == bare.Name {
				floor = other.End.Resident
			}
		}
		p.row(s.Contestant, fmt.Sprint(s.Services), fmt.Sprint(s.Revisions), fmt.Sprintf("%.4f", s.cores()), mebibytes(s.Start.Resident), mebibytes(s.End.Resident),
			ratio(float64(s.End.Resident), float64(floor)), writesOf(s.APIWrites))
	}
	p.line("")
	p.line("Both programs ran at the same time, and were restarted for each number of Services. The first reading is %v after the start of the last one. Meanwhile, the rest of the "+
		"machine, API server included, used %s of a core.", r.plan.Settle, spreadOf(values(all, func(s rested) float64 { return s.Others.Seconds() / s.Window.Seconds() })).text("%.2f"))
}

func (r report) footprint(c contestant) uint64 {
	for _, f := range r.results.Memory {
		if f.Contestant == c.Name {
			return f.Resident
		}
	}
	return 0
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

func p50(r result) float64      { return milliseconds(percentile(r.Latencies, 50)) }
func p99(r result) float64      { return milliseconds(percentile(r.Latencies, 99)) }
func writeP50(r result) float64 { return milliseconds(percentile(r.WriteTimes, 50)) }
func writeP99(r result) float64 { return milliseconds(percentile(r.WriteTimes, 99)) }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
func seconds(d time.Duration) string       { return fmt.Sprintf("%.1f s", d.Seconds()) }
func mebibytes(n uint64) string            { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }

// perTenThousand is processor time in seconds per 10,000 events.
func perTenThousand(get func(cpu) time.Duration) func(result) float64 {
	return func(r result) float64 {
		if r.Arrived() == 0 {
			return 0
		}
		return get(r.CPU).Seconds() / float64(r.Arrived()) * 10_000
	}
}

// changeRate is the API server's rate of committed changes, per second.
func changeRate(r result) float64 {
	took := r.LastCommit.Sub(r.First).Seconds()
	if took <= 0 {
		return 0
	}
	return float64(r.Changes) / took
}

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

func durations(turns []result, get func(result) float64) string {
	return spreadOf(values(turns, get)).text("%.1f")
}

func numbers(turns []result, get func(result) float64) string {
	return spreadOf(values(turns, get)).text("%.0f")
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
