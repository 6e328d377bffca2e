// SPDX-License-Identifier: Apache-2.0

package main

import "time"

// change is a new traffic split of a Service. Within one turn every split of a Service is different, so an event
// identifies its change.
type change struct {
	// Service is its name.
	Service string
	// Percent is the share of the newer Revision.
	Percent int64
}

// commit is a change that the API server has committed.
type commit struct {
	change
	// Began and Done are the times of the request and of the response.
	Began, Done time.Time
	// At is the earliest time at which the commit was known: when the response or a watch event arrived. What happens
	// inside the API server cannot be observed.
	At time.Time
}

// arrival is an event that the sink has accepted.
type arrival struct {
	change
	At time.Time
}

// outcome is the result of the changes in one turn.
type outcome struct {
	Changes int
	// Latencies from commit to first arrival, for each change that arrived.
	Latencies []time.Duration
	// Lost are the changes without an event.
	Lost []change
	// Repeated counts further events for a change.
	Repeated int
	// First and LastCommit are the times of the first and the last commit; Last is that of the last first arrival.
	First, LastCommit, Last time.Time
}

func match(commits []commit, arrivals []arrival) outcome {
	first := make(map[change]time.Time, len(arrivals))
	out := outcome{Changes: len(commits)}
	for _, a := range arrivals {
		at, seen := first[a.change]
		if seen {
			out.Repeated++
		}
		if !seen || a.At.Before(at) {
			first[a.change] = a.At
		}
	}
	for _, c := range commits {
		if out.First.IsZero() || c.At.Before(out.First) {
			out.First = c.At
		}
		if c.At.After(out.LastCommit) {
			out.LastCommit = c.At
		}
		at, ok := first[c.change]
		if !ok {
			out.Lost = append(out.Lost, c.change)
			continue
		}
		out.Latencies = append(out.Latencies, at.Sub(c.At))
		if at.After(out.Last) {
			out.Last = at
		}
	}
	return out
}

// Arrived is the number of changes with an event.
func (o outcome) Arrived() int { return len(o.Latencies) }

// Rate is the changes with an event per second, from the first commit to the last arrival.
func (o outcome) Rate() float64 {
	took := o.Last.Sub(o.First).Seconds()
	if o.Arrived() == 0 || took <= 0 {
		return 0
	}
	return float64(o.Arrived()) / took
}

// writes returns the durations of the writes that made the changes.
func writes(commits []commit) []time.Duration {
	out := make([]time.Duration, len(commits))
	for i, c := range commits {
		out[i] = c.Done.Sub(c.Began)
	}
	return out
}
