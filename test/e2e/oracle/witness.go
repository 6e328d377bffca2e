// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"cmp"
	"slices"
	"time"
)

// Watching is a time in which a replica received all changes.
type Watching struct {
	Replica string
	// To is zero while the watch lasts.
	From, To time.Time
}

// Request is the start or the end of a watch.
type Request struct {
	ID, Address string
	At          time.Time
	Began       bool
}

// Replica is a pod of the controller.
type Replica struct {
	Name, Address string
	Created       time.Time
}

// resumed is the longest gap after which a watch resumes without missing a change.
const resumed = 2 * time.Second

// Watchings returns the times in which replicas watched, from their requests. Several replicas may have had the same
// address, one after the other.
func Watchings(requests []Request, replicas []Replica) []Watching {
	ends := map[string]time.Time{}
	for _, r := range requests {
		if !r.Began {
			ends[r.ID] = r.At
		}
	}
	by := slices.SortedFunc(slices.Values(replicas), func(a, b Replica) int { return b.Created.Compare(a.Created) })
	var out []Watching
	for _, r := range slices.SortedFunc(slices.Values(requests), func(a, b Request) int { return a.At.Compare(b.At) }) {
		// Creation times are truncated to seconds.
		i := slices.IndexFunc(by, func(p Replica) bool { return p.Address == r.Address && !p.Created.After(r.At) })
		if !r.Began || i < 0 {
			continue
		}
		w := Watching{Replica: by[i].Name, From: r.At, To: ends[r.ID]}
		last := slices.IndexFunc(out, func(o Watching) bool {
			return o.Replica == w.Replica && (o.To.IsZero() || w.From.Sub(o.To) < resumed)
		})
		if last < 0 {
			out = append(out, w)
			continue
		}
		if out[last].To.IsZero() || w.To.IsZero() {
			out[last].To = time.Time{}
		} else {
			out[last].To = later(out[last].To, w.To)
		}
	}
	return out
}

// kept is how long a standby replica keeps what it saw, as documented.
const kept = 5 * time.Minute

// saw reports whether a replica received a change at a time, and watched until another time.
func (w Watching) saw(at, until time.Time) bool {
	return w.From.Add(slack).Before(at) && (w.To.IsZero() || w.To.Add(-slack).After(until))
}

// hadSeen reports whether the leader after an absence saw a change within it, and must therefore report it.
func (j *judge) hadSeen(at time.Time, a Absence) bool {
	return a.By != "" && a.To.Sub(at) < kept && slices.ContainsFunc(j.watching, func(w Watching) bool {
		return w.Replica == a.By && w.saw(at, a.To)
	})
}

// standbys returns the replicas that saw a change at a time.
func (j *judge) standbys(at time.Time) []string {
	var out []string
	for _, w := range j.watching {
		if w.saw(at, at) {
			out = append(out, w.Replica)
		}
	}
	slices.SortFunc(out, cmp.Compare[string])
	return slices.Compact(out)
}
