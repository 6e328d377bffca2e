// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A canary that harms what it shares with its baseline, such as a database, looks no worse than the baseline. Only
// the baseline's own past shows it: how bad the baseline was at its worst before the canary's first pod. The past
// ends there and not at the split, because a later step of the same rollout would otherwise inherit what an earlier
// one did.

const (
	// levelStep and levelRequests are what one stretch of the past needs at least: shorter stretches, or ones with fewer
	// requests, have their worst moments by chance.
	levelStep     = 5 * time.Minute
	levelRequests = 300
)

// Ratio is a number of bad requests, and of all requests.
type Ratio struct{ Bad, All float64 }

// Rate is the bad part of the requests; 0 without requests.
func (r Ratio) Rate() float64 { return partOf(r.Bad, r.All) }

// worse returns the one with the higher rate.
func (r Ratio) worse(o Ratio) Ratio {
	if r.All == 0 || o.All > 0 && o.Rate() > r.Rate() {
		return o
	}
	return r
}

// Level is how bad a Revision was at its worst in the last one to two hours, by what counts as bad. Each Ratio is of
// one stretch of at least five minutes and 300 requests, with All 0 if there was none.
type Level struct {
	// Watched is how long the Revision was watched, in stretches that have ended.
	Watched time.Duration
	// Errors are counted where requests are handled, EntryErrors and ClientErrors where they enter.
	Errors, EntryErrors, ClientErrors Ratio
	// Above counts handled requests above each histogram bound, in seconds.
	Above map[float64]Ratio
}

// merge takes a later or an earlier Level.
func (l *Level) merge(o Level) {
	l.Watched += o.Watched
	l.Errors, l.EntryErrors = l.Errors.worse(o.Errors), l.EntryErrors.worse(o.EntryErrors)
	l.ClientErrors = l.ClientErrors.worse(o.ClientErrors)
	above := maps.Clone(o.Above)
	for bound, r := range l.Above {
		if above == nil {
			above = map[float64]Ratio{}
		}
		above[bound] = r.worse(above[bound])
	}
	l.Above = above
}

// levels of one Revision: two alternating hours, and the current stretch.
type levels struct {
	older, newer Level
	stretch      PodShare
	long         time.Duration
}

// add takes what the Revision's pods did in one interval.
func (l *levels) add(s PodShare, long time.Duration) {
	l.stretch.add(s)
	l.long += long
	if l.long < levelStep || l.stretch.Finished < levelRequests {
		return
	}
	if l.newer.Watched >= pastKept {
		l.older, l.newer = l.newer, Level{}
	}
	one := Level{Watched: l.long, Errors: Ratio{l.stretch.Errors, l.stretch.Finished}, Above: map[float64]Ratio{}}
	if l.stretch.Entered >= levelRequests {
		one.EntryErrors = Ratio{l.stretch.EntryErrors, l.stretch.Entered}
	}
	if l.stretch.Classed >= levelRequests {
		one.ClientErrors = Ratio{l.stretch.ClientErrors, l.stretch.Classed}
	}
	for bound, n := range l.stretch.Above {
		one.Above[bound] = Ratio{n, l.stretch.Finished}
	}
	l.newer.merge(one)
	l.stretch, l.long = PodShare{}, 0
}

func (l *levels) level() Level {
	var out Level
	out.merge(l.older)
	out.merge(l.newer)
	return out
}

// measure adds what all pods of a Revision did in one interval.
func (c *serviceCounts) measure(revision types.UID, all PodShare, long time.Duration) {
	l := c.levels[revision]
	if l == nil {
		l = &levels{}
		c.levels[revision] = l
	}
	l.add(all, long)
}

// freeze keeps the levels of all Revisions at the moment of a Revision's first pod. If the pod is older than this
// process, that moment has passed, and nothing is known of before.
func (c *serviceCounts) freeze(revision types.UID, passed bool) {
	if _, done := c.frozen[revision]; done {
		return
	}
	c.frozen[revision] = map[types.UID]Level{}
	if !passed {
		c.frozen[revision] = c.allLevels()
	}
}

// allLevels returns the levels of all Revisions that have one.
func (c *serviceCounts) allLevels() map[types.UID]Level {
	out := map[types.UID]Level{}
	for uid, l := range c.levels {
		if is := l.level(); is.Watched > 0 {
			out[uid] = is
		}
	}
	return out
}

// pastLevels are the levels up to a moment; a Revision in frozen has its own.
type pastLevels struct {
	now    map[types.UID]Level
	frozen map[types.UID]map[types.UID]Level
}

// Level returns how bad a Revision was before the first pod of another one, or up to now if that has had no pod. It
// is empty if this process did not watch. It is not part of the JSON.
func (s *Snapshot) Level(of, before types.UID) Level {
	if frozen, had := s.levels.frozen[before]; had {
		return frozen[of]
	}
	return s.levels.now[of]
}
