package main

import "time"

// change is a new traffic split of a Service. Within one turn no Service gets the same split twice, so that each
// event tells which change it is of.
type change struct {
	// Service is its name.
	Service string
	// Percent is the share of the newer Revision.
	Percent int64
}

// commit is a change that the API server has taken.
type commit struct {
	change
	// Began and Done are when it was asked to, and when the answer was there.
	Began, Done time.Time
	// At is when it was first known that the change is committed. What happens inside the API server cannot be seen:
	// it is when the answer came, or when a watch was told, if that was earlier.
	At time.Time
}

// arrival is an event that the sink has taken.
type arrival struct {
	change
	At time.Time
}

// outcome is what became of the changes of one turn.
type outcome struct {
	Changes int
	// Latencies are those from commit to first arrival, one for each change that arrived.
	Latencies []time.Duration
	// Lost are the changes without an event.
	Lost []change
	// Repeated are events about a change that an event had told of already.
	Repeated int
	// First and LastCommit are the first commit and the last, Last is the last first arrival.
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

// Arrived is how many changes have an event.
func (o outcome) Arrived() int { return len(o.Latencies) }

// Rate is how many changes per second had their event, from the first commit to the last arrival.
func (o outcome) Rate() float64 {
	took := o.Last.Sub(o.First).Seconds()
	if o.Arrived() == 0 || took <= 0 {
		return 0
	}
	return float64(o.Arrived()) / took
}

// writes are how long the writes took that made the changes.
func writes(commits []commit) []time.Duration {
	out := make([]time.Duration, len(commits))
	for i, c := range commits {
		out[i] = c.Done.Sub(c.Began)
	}
	return out
}
