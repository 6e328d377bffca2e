// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"
)

// aims compares the results with our aims. Missing one is not a failure: the numbers depend on the machine.
func (r report) aims(p *page) {
	p.head("Aims")
	p.row("aim", "measured", "")
	p.line("|---|---|---|")
	r.scrapeAims(p)
	r.latencyAim(p)
	r.throughputAims(p)
	r.lossAim(p)
	r.drainAim(p)
	r.memoryAim(p)
	r.idleAims(p)
}

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "**missed**"
}

// latencyAim takes the cost of a write from the bare program's turns. Our own turns load the API server more, which
// must not relax the limit.
func (r report) latencyAim(p *page) {
	all := r.results.Latency
	if len(all) == 0 {
		return
	}
	got, floor, write := median(of(ours, all), p99), median(of(bare, all), p99), median(of(bare, all), writeP99)
	limit := 1.5*floor + write
	p.row(fmt.Sprintf("p99 at %d changes/s within 1.5 times the bare program's and one API write", r.plan.Pace),
		fmt.Sprintf("%.1f ms; 1.5 × %.1f ms + %.1f ms = %.1f ms", got, floor, write, limit), verdict(got <= limit))
	sum, events, _ := written(of(ours, all))
	perEvent := float64(sum) / float64(max(events, 1))
	p.row(fmt.Sprintf("at most 2.1 API writes per event at %d changes/s, until every event is delivered and that is recorded", r.plan.Pace),
		fmt.Sprintf("%.2f", perEvent), verdict(perEvent <= 2.1))
}

func (r report) throughputAims(p *page) {
	if all := r.results.Slow; len(all) > 0 {
		got, peer := median(of(ours, all), result.Rate), median(of(apiServerSource, all), result.Rate)
		p.row("events/s above ApiServerSource's with a sink of 50 ms", fmt.Sprintf("%.0f; %.0f", got, peer), verdict(got > peer))
	}
	if all := r.results.Fast; len(all) > 0 {
		mine, floor := median(of(ours, all), writeRate), median(of(bare, all), writeRate)
		rate, peer := median(of(ours, all), result.Rate), median(of(bare, all), result.Rate)
		p.row("events/s at least 0.55 times the bare program's with a sink of 1 ms", fmt.Sprintf("%.0f; %.0f", rate, peer), verdict(rate >= .55*peer))
		p.row("bounded only by the API server's writes with a sink of 1 ms",
			fmt.Sprintf("the API server took %.0f writes/s, changes included; %.0f with the bare program, which writes nothing", mine, floor), "")
	}
}

// writeRate is the rate of API writes until the last event arrived: those of the changes plus those of the
// program.
func writeRate(r result) float64 {
	sum := r.Changes
	for _, n := range r.APIWrites {
		sum += n
	}
	took := r.Last.Sub(r.First).Seconds()
	if took <= 0 {
		return 0
	}
	return float64(sum) / took
}

func (r report) lossAim(p *page) {
	for _, t := range of(ours, r.results.Outage) {
		p.row("nothing lost with an outage and a kill", fmt.Sprintf("%d of %d lost", len(t.Lost), t.Changes), verdict(len(t.Lost) == 0))
	}
}

func (r report) drainAim(p *page) {
	if d := r.results.Drain; d != nil {
		took := d.Last.Sub(d.Healed)
		p.row(fmt.Sprintf("%d pending events drained within 10 s", d.Pending), fmt.Sprintf("%.1f s", took.Seconds()), verdict(took < 10*time.Second))
	}
}

func (r report) memoryAim(p *page) {
	got, peer := r.footprint(ours), r.footprint(bare)
	if got == 0 || peer == 0 {
		return
	}
	other := r.footprint(apiServerSource)
	p.row("memory at most half of the bare program's, and below ApiServerSource's",
		fmt.Sprintf("%s; %s / 2 = %s; %s", mebibytes(got), mebibytes(peer), mebibytes(peer/2), mebibytes(other)),
		verdict(got <= peer/2 && (other == 0 || got < other)))
}

// Aims of the controller at rest.
const (
	idleCores = 0.01
	// growth is noise: what the kernel counts moves by as much while a program does nothing.
	growth = 0.02
)

func (r report) idleAims(p *page) {
	for _, s := range r.results.Idle {
		if s.Contestant != ours.Name {
			continue
		}
		p.row(fmt.Sprintf("under %v of a core at rest with %d Services", idleCores, s.Services), fmt.Sprintf("%.4f", s.cores()), verdict(s.cores() < idleCores))
		p.row(fmt.Sprintf("no growth at rest in %v with %d Services, apart from %.0f %%", s.Window.Round(time.Second), s.Services, 100*growth),
			mebibytes(s.Start.Resident)+", then "+mebibytes(s.End.Resident), verdict(float64(s.End.Resident) <= (1+growth)*float64(s.Start.Resident)))
	}
}
