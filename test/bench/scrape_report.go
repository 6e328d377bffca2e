// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"time"
)

// scraping reports the cost of scraping pods.
func (r report) scraping(p *page) {
	all := r.results.Scraped
	if len(all) == 0 {
		return
	}
	p.head("Reading pods: %d and %d targets with %d series each, every %v", all[0].Targets, all[len(all)-1].Targets, seriesEach, scrapeInterval)
	p.row("program", "targets", "CPU s per minute", "to Prometheus", "CPU ms per reading", "resident", "to Prometheus", "peak", "to Prometheus", "heap in use",
		"readings", "missed", "requests counted, of those exposed")
	p.rule(13)
	for _, s := range all {
		peer := r.scraped(prometheusName, s.Targets)
		p.row(s.Program, fmt.Sprint(s.Targets), fmt.Sprintf("%.2f", s.perMinute()), ratio(s.perMinute(), peer.perMinute()),
			fmt.Sprintf("%.2f", s.perReading()), mebibytes(s.Resident), ratio(float64(s.Resident), float64(peer.Resident)),
			mebibytes(s.Peak), ratio(float64(s.Peak), float64(peer.Peak)), mebibytes(s.Heap),
			fmt.Sprint(s.Readings), fmt.Sprint(s.Missed), fmt.Sprintf("%.0f of %.0f", s.Counted, s.Truth))
	}
	p.line("")
	var growth []string
	for _, name := range []string{ours.Name, prometheusName} {
		few, many := r.scraped(name, all[0].Targets), r.scraped(name, all[len(all)-1].Targets)
		growth = append(growth, fmt.Sprintf("%s %s times the processor time and %s times the memory", name,
			ratio(many.perMinute(), few.perMinute()), ratio(float64(many.Resident), float64(few.Resident))))
	}
	p.line("With %s times the targets: %s. Both ran at the same time, over %v. In the larger case, the targets are the ports of %d pods of %d Services with %d Revisions each. "+
		"Of an application's series, the controller keeps %d numbers; of queue-proxy's, %d.",
		ratio(float64(all[len(all)-1].Targets), float64(all[0].Targets)), strings.Join(growth, ", "), all[0].Window.Round(time.Second),
		all[len(all)-1].Targets/2, all[len(all)-1].Targets/portsOfService, shardedRevisions, kept.application, kept.queueProxy)
}

// scraped returns a program's cost for that many targets.
func (r report) scraped(program string, targets int) scraped {
	for _, s := range r.results.Scraped {
		if s.Program == program && s.Targets == targets {
			return s
		}
	}
	return scraped{}
}

// perMinute is processor time in seconds per minute.
func (s scraped) perMinute() float64 {
	if s.Window <= 0 {
		return 0
	}
	return s.CPU.Seconds() / s.Window.Minutes()
}

// perReading is processor time in milliseconds per scrape.
func (s scraped) perReading() float64 {
	if s.Readings == 0 {
		return 0
	}
	return milliseconds(s.CPU) / float64(s.Readings)
}

// scrapeAims: a program that misses scrapes must not meet the aims for cost.
func (r report) scrapeAims(p *page) {
	all := r.results.Scraped
	if len(all) == 0 {
		return
	}
	most := all[len(all)-1].Targets
	mine, peer := r.scraped(ours.Name, most), r.scraped(prometheusName, most)
	whole := mine.Missed <= peer.Missed && mine.Counted == mine.Truth
	p.row(fmt.Sprintf("processor time of reading %d targets under half of Prometheus's", most),
		fmt.Sprintf("%.2f; %.2f s per minute, %s", mine.perMinute(), peer.perMinute(), ratio(mine.perMinute(), peer.perMinute())),
		verdict(whole && mine.perMinute() < peer.perMinute()/2))
	p.row("memory under half of Prometheus's, the rest of the controller included",
		fmt.Sprintf("%s; %s, %s", mebibytes(mine.Resident), mebibytes(peer.Resident), ratio(float64(mine.Resident), float64(peer.Resident))),
		verdict(whole && mine.Resident < peer.Resident/2))
	p.row("no reading missed, every request counted", fmt.Sprintf("%d of %d missed; %.0f of %.0f counted", mine.Missed, mine.Readings+mine.Missed, mine.Counted, mine.Truth),
		verdict(mine.Missed == 0 && mine.Counted == mine.Truth))
}
