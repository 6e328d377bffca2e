// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// verdict is the result of the oracle for one run.
type verdict struct {
	// events is how many events the sinks received, without duplicates.
	events int
	// pardoned are effective splits after the first without an event: they were
	// superseded while no process watched, or before the processes that saw them
	// journaled them and died. late are those of Services that were deleted before
	// the watch of Routes delivered them.
	pardoned, late int
	// replayed is how many Services have a final state that their events alone reproduce.
	replayed int
}

// judge compares what the sinks received with the history of the API server. It does not
// use lifecycle, ledger or memory. Exactly one event announces each effective split, in
// order; deployed announces the first.
func (w *world) judge() verdict {
	var v verdict
	for _, source := range w.sources {
		got := w.got[source.UID]
		mine := map[types.UID][]delivered{}
		splits := map[types.UID][]delivered{}
		for _, d := range got {
			if !d.known {
				v.events++
				mine[d.uid] = append(mine[d.uid], d)
			}
			if d.known || slices.Contains([]string{"deployed", "upgraded", "rolledback", "shifted"}, short(d.typ)) {
				splits[d.uid] = append(splits[d.uid], d)
			}
		}
		w.judgeEnvironments(got)
		for _, s := range w.cluster.history {
			w.judgeOne(s, mine[s.uid], &v)
			if !s.unmade {
				w.judgeSplits(s, splits[s.uid], &v)
			}
		}
	}
	// Events that were journaled after the backup and not sent were written in vain.
	if writes := w.store.Writes() - w.silent; writes > 2*v.events+saves && w.cluster.era == 0 && w.cores == nil {
		w.fail("%d writes for %d events", writes, v.events)
	}
	return v
}

// saves is how many memories a history may save although nothing is announced. In one of 40,000, which
// has 29 events, there are six more than its events leave room for.
const saves = 8

func (w *world) judgeOne(s *service, mine []delivered, v *verdict) {
	w.judgeTimes(s, mine)
	if s.unmade {
		return // it was announced, and then the backup did not have it
	}
	count := map[string]int{}
	ready := map[string]int{}
	for _, d := range mine {
		count[short(d.typ)]++
		if short(d.typ) == "ready" {
			ready[d.revision]++
		}
	}
	// A restored backup also restores an older memory of what was announced.
	most := 1 + s.restored
	if s.deleted {
		most += w.cluster.era - s.era
	}
	for _, once := range []string{"created", "deployed", "removed"} {
		if count[once] > most {
			w.fail("%s: %d events %s", s.uid, count[once], once)
		}
	}
	if s.restored == 0 {
		w.judgeHistory(s.uid, mine)
	}
	w.judgeCluster(s, count, mine, most)
	w.judgeURLs(s, mine)
	w.judgeRuns(s, mine, most)
	for name, n := range ready {
		if n > most {
			w.fail("%s: %d events ready of Revision %s", s.uid, n, name)
		}
	}
	switch before := w.before(s); {
	case s.deleted:
		if w.deployed(s, mine) && count["removed"] == 0 && s.era == w.cluster.era {
			w.fail("%s was deployed and deleted, but no removal was announced", s.uid)
		}
	case count["removed"] > s.restored:
		w.fail("%s is there, and was announced as removed", s.uid)
	case before:
	case count["created"] == 0:
		w.fail("%s was never announced", s.uid)
	case s.ready && count["deployed"] == 0:
		w.fail("%s was never deployed", s.uid)
	case s.ready && count["published"] == 0:
		w.fail("%s was never published", s.uid)
	default:
		for _, name := range s.revisions {
			if ready[name] == 0 {
				w.fail("%s: no event announced that Revision %s is ready", s.uid, name)
			}
		}
	}
	w.judgeEnd(s, mine, v)
}

// judgeTimes checks that the times of events never go backwards, whatever the clocks of
// the leaders show.
func (w *world) judgeTimes(s *service, mine []delivered) {
	if s.restored > 0 || s.unmade {
		return
	}
	var last time.Time
	for _, d := range mine {
		if d.time.Before(last) {
			w.fail("%s: %s has a time before the event that was sent before it", s.uid, d.typ)
		}
		last = d.time
	}
}

// deployed reports whether a Service was announced as deployed, and no restore undid that.
func (w *world) deployed(s *service, mine []delivered) bool {
	return slices.ContainsFunc(mine, func(d delivered) bool {
		return short(d.typ) == "deployed" && (d.era == w.cluster.era || !s.forgotten)
	})
}

// before reports whether a Service existed before the first controller.
func (w *world) before(s *service) bool { return s.created.Before(w.baseline()) }

// judgeSplits matches the announced splits to the committed ones, in order, with the
// fewest commits missing that should be announced. The same split may have been
// committed several times.
func (w *world) judgeSplits(s *service, told []delivered, v *verdict) {
	baselined := w.before(s)
	n, m := len(s.splits), len(told)
	// deployed includes all earlier splits. A Service that is older than the controller is deployed only if the
	// first process listed it before it was ready.
	included := !baselined || m > 0 && short(told[0].typ) == "deployed"
	// The cost of a commit that is not announced. One that should have been announced
	// costs more than all pardons together.
	const lost, pardon, never = 1 << 12, 1, 1 << 40
	cost := make([]int, n)
	for i, c := range s.splits {
		switch {
		case w.counts(s, c, baselined):
			cost[i] = lost
		case !c.given && (c.known || !baselined):
			cost[i] = pardon
		}
	}
	// best[j][i] is the lowest cost of matching told[:j] to splits[:i].
	best := make([][]int, m+1)
	for j := range best {
		// A state from a restored ledger may or may not be where the ledger continued:
		// what was journaled and not sent follows the restore.
		optional := j > 0 && told[j-1].known
		best[j] = make([]int, n+1)
		for i := range best[j] {
			best[j][i] = never
			switch {
			case j == 0 && i == 0, j == 0 && included:
				best[j][i] = 0
			case i > 0:
				best[j][i] = best[j][i-1] + cost[i-1]
				if j > 0 && slices.Equal(s.splits[i-1].split, told[j-1].traffic) {
					best[j][i] = min(best[j][i], best[j-1][i-1])
					// A backup from before deployed allows a second deployed, which includes the
					// splits since the backup.
					for k := i - 1; k > 0 && s.restored > 0 && short(told[j-1].typ) == "deployed" && s.splits[k-1].era == s.splits[i-1].era; k-- {
						best[j][i] = min(best[j][i], best[j-1][k-1])
					}
				}
			}
			if optional {
				best[j][i] = min(best[j][i], best[j-1][i])
			}
		}
	}
	switch least := best[m][n]; {
	case least >= never:
		w.fail("%s: the announced states differ from what happened, or are in another order", s.uid)
	case s.deleted:
		v.late += least/lost + least%lost
	case least >= lost:
		w.fail("%s: %d of %d splits were announced by no event, although a process that still runs saw them", s.uid, least/lost, n)
	default:
		v.pardoned += least
	}
	// A backup from before the first split restores a Service without traffic.
	if !s.deleted && n > 0 && m > 0 && s.splits[n-1].era >= s.era && !s.splits[n-1].given && !slices.Equal(told[m-1].traffic, s.splits[n-1].split) {
		w.fail("%s: the last event tells of %v, and the traffic is %v", s.uid, told[m-1].traffic, s.splits[n-1].split)
	}
}

// counts reports whether a split must be announced: a process saw it and still lives, as
// leader or as standby, and no other process started after it was superseded, because that
// one may have journaled the later state first.
func (w *world) counts(s *service, c commit, baselined bool) bool {
	if c.given || baselined && !c.known {
		return false // no change, or part of the state before the controller
	}
	if w.cores != nil {
		return w.sighted(s, c) && w.differs(s, c)
	}
	told := false
	for _, t := range w.watches {
		if t.era != c.era {
			continue
		}
		if c.at < t.from && c.until >= 0 && c.until < t.from {
			return false
		}
		told = told || !t.over
	}
	return told
}
