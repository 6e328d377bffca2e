// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// turnOf is a turn in which every latency and every write takes that long, and 100 changes take a second.
func turnOf(c contestant, latency, write time.Duration) result {
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	r := result{Contestant: c.Name, Took: 2 * time.Second, APIWrites: map[string]int{"cdeventsubjects": 150, "leases": 1}}
	r.Changes = 100
	r.Latencies = slices.Repeat([]time.Duration{latency}, 100)
	r.WriteTimes = slices.Repeat([]time.Duration{write}, 100)
	r.First, r.LastCommit, r.Last = start, start.Add(500*time.Millisecond), start.Add(time.Second)
	r.CPU = cpu{Program: time.Second, APIServer: 2 * time.Second}
	return r
}

func write(t *testing.T, r report) string {
	t.Helper()
	var out strings.Builder
	if err := r.write(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func wants(t *testing.T, got string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(got, line) {
			t.Errorf("%q is missing from\n%s", line, got)
		}
	}
}

func TestReportOfLatency(t *testing.T) {
	r := report{plan: whole}
	for _, ms := range []int{19, 20, 30} {
		r.results.Latency = append(r.results.Latency, turnOf(ours, time.Duration(ms)*time.Millisecond, 50*time.Millisecond))
	}
	r.results.Latency = append(r.results.Latency, turnOf(bare, 10*time.Millisecond, 5*time.Millisecond))
	wants(t, write(t, r), "### Latency at 50 changes/s", "20.0 (19.0–30.0) | 20.0 (19.0–30.0) | 2.00 |",
		"1.51 (cdeventsubjects 450, leases 3)", "20.0 ms; 1.5 × 10.0 ms + 5.0 ms = 20.0 ms | met |")
	r.results.Latency = append(r.results.Latency[3:], turnOf(ours, 20*time.Millisecond+100*time.Microsecond, 0))
	wants(t, write(t, r), "| **missed** |")
}

func TestReportOfBursts(t *testing.T) {
	slower := turnOf(apiServerSource, 0, 0)
	slower.Latencies = slower.Latencies[:50]
	slower.APIWrites = nil
	r := report{plan: whole}
	r.results.Fast = []result{turnOf(ours, 0, 0), slower}
	r.results.Slow = []result{turnOf(ours, 0, 0), slower}
	wants(t, write(t, r), "| knative-cdevents | 100 | 2.00 | 100 | 200 | 1.51 (cdeventsubjects 150, leases 1) | 0.00 | 100 | 200 | 0 | 0 |",
		"| ApiServerSource | 50 | 1.00 | 50 | 200 | 0 | 0.00 | 200 |", "| 100; 50 | met |", "took 251 writes/s")
}

func TestReportOfLoss(t *testing.T) {
	mine := turnOf(ours, 0, 0)
	r := report{plan: whole, results: results{Outage: []result{mine}}}
	wants(t, write(t, r), "Outage of 30s at 20 changes/s, with a kill after 15s of it", "0 of 100 lost | met |")
	mine.Lost = []change{{"cart", 1}}
	r.results.Outage = []result{mine}
	wants(t, write(t, r), "1 of 100 lost | **missed** |")
}

func TestReportOfMemory(t *testing.T) {
	r := report{plan: whole, results: results{Memory: []footprint{
		{ours.Name, memory{Resident: 99 << 20, Peak: 200 << 20}, 10, 30}, {bare.Name, memory{Resident: 500 << 20, Peak: 900 << 20}, 10, 30},
	}}}
	wants(t, write(t, r), "| knative-cdevents | 99 MiB | 0.20 | 200 MiB |", "99 MiB; 500 MiB / 2 = 250 MiB | met |")
	r.results.Memory[0].Resident = 251 << 20
	wants(t, write(t, r), "**missed**")
}

func TestReportOfScraping(t *testing.T) {
	of := func(program string, targets int, took time.Duration, mib uint64) scraped {
		return scraped{
			Program: program, Targets: targets, Window: time.Minute, CPU: took, memory: memory{Resident: mib << 20, Peak: mib << 20},
			Readings: 4 * targets, Counted: 7, Truth: 7,
		}
	}
	r := report{plan: whole, results: results{Scraped: []scraped{
		of(ours.Name, 100, time.Second, 80), of(prometheusName, 100, time.Second, 100),
		of(ours.Name, 1000, 2*time.Second, 100), of(prometheusName, 1000, 5*time.Second, 500),
	}}}
	wants(t, write(t, r), "100 and 1000 targets with 200 series each, every 15s",
		"| knative-cdevents | 1000 | 2.00 | 0.40 | 0.50 | 100 MiB | 0.20 | 100 MiB | 0.20 | 0 MiB | 4000 | 0 | 7 of 7 |",
		"knative-cdevents 2.00 times the processor time and 1.25 times the memory", "2.00; 5.00 s per minute, 0.40 | met |", "100 MiB; 500 MiB, 0.20 | met |", "0 of 4000 missed")
	// A program that misses scrapes does not meet the aims for cost.
	r.results.Scraped[2].Missed = 1
	if got := write(t, r); strings.Count(got, "**missed**") != 3 {
		t.Errorf("got %s", got)
	}
	r.results.Scraped[2].Missed, r.results.Scraped[2].Counted = 0, 6
	if got := write(t, r); strings.Count(got, "**missed**") != 3 {
		t.Errorf("got %s", got)
	}
}

func TestReportOfNothing(t *testing.T) {
	if got := write(t, report{}); strings.Contains(got, "### Latency") || strings.Contains(got, "missed") {
		t.Errorf("got %s", got)
	}
}

func TestReportAtRest(t *testing.T) {
	for end, want := range map[uint64]string{102: "100 MiB, then 102 MiB | met |", 103: "100 MiB, then 103 MiB | **missed** |"} {
		r := report{plan: whole, results: results{Idle: []rested{
			{ours.Name, 1000, 3000, 10 * time.Minute, 6 * time.Second, memory{Resident: 100 << 20}, memory{Resident: end << 20}, time.Minute, map[string]int{"leases": 60}},
			{bare.Name, 1000, 3000, 10 * time.Minute, 0, memory{Resident: 200 << 20}, memory{Resident: 400 << 20}, time.Minute, nil},
		}}}
		wants(t, write(t, r), "### At rest: no pod, no request and no change, for 10m0s", "| bare | 1000 | 3000 | 0.0000 | 200 MiB | 400 MiB | 1.00 | 0 |",
			"| 1000 | 3000 | 0.0100 | 100 MiB | "+strconv.FormatUint(end, 10)+" MiB | 0.26 | leases 60 |", "| 0.0100 | **missed** |", want)
	}
}

func TestNumbersOfIdleServices(t *testing.T) {
	var o options
	if err := o.setIdlers("1000,10000"); err != nil || len(o.idlers) != 2 || o.idlers[1] != 10_000 {
		t.Errorf("%v, %v", o.idlers, err)
	}
	for _, wrong := range []string{"", "x", "0", "10,5"} {
		if err := o.setIdlers(wrong); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}
