// SPDX-License-Identifier: Apache-2.0

package main

import "time"

// plan sets the amount of everything. It bounds the whole run in number and in time.
type plan struct {
	// Services that change, each with that many Revisions.
	Services, Revisions int
	// Pace is the number of changes a second, for PaceFor, repeated PaceRepeats times.
	Pace        int
	PaceFor     time.Duration
	PaceRepeats int

	// Burst is the number of changes, made by that many Writers, repeated BurstRepeats times.
	Burst, Writers, BurstRepeats int
	// BurstFor bounds the wait for a sink. A contestant that sends one event at a time to a slow sink would need many
	// minutes.
	BurstFor time.Duration

	// OutagePace is slow enough that no Service changes twice while a program is down.
	OutagePace int
	// The sink fails from Breaks to Heals, and the program is killed at Kill, all relative to the first change. Changes
	// continue until Ends; an event that has not arrived OutageFor later is lost.
	Breaks, Kill, Heals, Ends, OutageFor time.Duration

	// Targets is the number of ports to scrape; ReadFor is the length of the measurement, several intervals.
	Targets int
	ReadFor time.Duration

	// AtRest is the number of Services in the memory scenario. Settle is the wait after the start: longer than the two
	// minutes after which an idle Go process collects garbage and returns memory to the kernel.
	AtRest int
	Settle time.Duration

	// Idlers are the numbers of Services in the rest scenario, in ascending order. IdleFor is how long each is watched.
	Idlers  []int
	IdleFor time.Duration

	// Sleepers are the numbers of Services in the serverless scenario, in ascending order. CalmPace is the number of
	// changes a second there, for CalmFor: Services change rarely where this mode is of use. Starts is how often the core
	// is started.
	Sleepers []int
	CalmPace int
	CalmFor  time.Duration
	Starts   int
}

// Response delays of the sink.
const (
	fast = time.Millisecond
	slow = 50 * time.Millisecond
)

var whole = plan{
	Services: 1000, Revisions: 3,
	Pace: 50, PaceFor: 30 * time.Second, PaceRepeats: 3,
	Burst: 10_000, Writers: 32, BurstRepeats: 2, BurstFor: time.Minute,
	OutagePace: 20, Breaks: 5 * time.Second, Kill: 20 * time.Second, Heals: 35 * time.Second, Ends: 45 * time.Second, OutageFor: time.Minute,
	Targets: 1000, ReadFor: 3 * scrapeInterval,
	AtRest: 10_000, Settle: 210 * time.Second,
	Idlers: []int{1000, 10_000, 30_000}, IdleFor: 10 * time.Minute,
	Sleepers: []int{100, 1000, 10_000}, CalmPace: 4, CalmFor: 75 * time.Second, Starts: 20,
}

// brief only checks that everything works; its numbers are not meaningful.
var brief = plan{
	Services: 100, Revisions: 3,
	Pace: 50, PaceFor: 4 * time.Second, PaceRepeats: 1,
	Burst: 500, Writers: 32, BurstRepeats: 1, BurstFor: 20 * time.Second,
	OutagePace: 2, Breaks: time.Second, Kill: 6 * time.Second, Heals: 11 * time.Second, Ends: 15 * time.Second, OutageFor: 30 * time.Second,
	Targets: 200, ReadFor: scrapeInterval,
	AtRest: 300, Settle: 10 * time.Second,
	Idlers: []int{300}, IdleFor: 20 * time.Second,
	Sleepers: []int{100}, CalmPace: 4, CalmFor: 5 * time.Second, Starts: 2,
}
