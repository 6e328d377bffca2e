package main

import "time"

// plan is how much of everything is done. It bounds the whole run, in number and in time.
type plan struct {
	// Services that change; each has Revisions.
	Services, Revisions int
	// Pace is changes a second, for PaceFor, so many times.
	Pace        int
	PaceFor     time.Duration
	PaceRepeats int

	// Burst is a number of changes, made by so many Writers, so many times.
	Burst, Writers, BurstRepeats int
	// BurstFor bounds how long a sink is waited for. A contestant that sends one event after the other to a slow
	// sink would need many minutes.
	BurstFor time.Duration

	// OutagePace is slow enough that no Service changes twice while a program is down.
	OutagePace int
	// The sink fails from Breaks to Heals, and the program is killed at Kill, all counted from the first change;
	// changes go on until Ends, and OutageFor later what has not come is lost.
	Breaks, Kill, Heals, Ends, OutageFor time.Duration

	// Targets are the ports of pods that are read, ReadFor how long it is measured: so many intervals.
	Targets int
	ReadFor time.Duration

	// Crowd is the number of Services when memory is measured, Settle how long after the start: longer than the two
	// minutes after which Go collects garbage even where nothing happens, and gives back to the kernel what it freed.
	Crowd  int
	Settle time.Duration
}

// The delays of the sink.
const (
	fast = time.Millisecond
	slow = 50 * time.Millisecond
)

var whole = plan{
	Services: 1000, Revisions: 3,
	Pace: 50, PaceFor: 10 * time.Second, PaceRepeats: 3,
	Burst: 10_000, Writers: 32, BurstRepeats: 2, BurstFor: time.Minute,
	OutagePace: 20, Breaks: 5 * time.Second, Kill: 20 * time.Second, Heals: 35 * time.Second, Ends: 45 * time.Second, OutageFor: time.Minute,
	Targets: 1000, ReadFor: 3 * scrapeInterval,
	Crowd: 10_000, Settle: 210 * time.Second,
}

// brief is for a look at whether all of it works: its numbers say little.
var brief = plan{
	Services: 100, Revisions: 3,
	Pace: 50, PaceFor: 4 * time.Second, PaceRepeats: 1,
	Burst: 500, Writers: 32, BurstRepeats: 1, BurstFor: 20 * time.Second,
	OutagePace: 2, Breaks: time.Second, Kill: 6 * time.Second, Heals: 11 * time.Second, Ends: 15 * time.Second, OutageFor: 30 * time.Second,
	Targets: 200, ReadFor: scrapeInterval,
	Crowd: 300, Settle: 10 * time.Second,
}
