package sim

import (
	"slices"
	"strings"
)

// verdict is what the oracle found in one run.
type verdict struct {
	// events that the sink got, without duplicates.
	events int
	// lost are effective splits that a watching leader was told of and that no
	// event tells of; pardoned are those that were superseded while nobody
	// watched, or before a process that died had journaled them.
	lost, pardoned int
}

// judge compares what the sink got with the history of the API server. It knows
// nothing of lifecycle, ledger and memory: an effective split is told by
// exactly one event, in order; the first by deployed.
func (w *world) judge() verdict {
	v := verdict{events: len(w.got)}
	for _, s := range w.cluster.history {
		var mine []delivered
		for _, d := range w.got {
			if d.uid == s.uid {
				mine = append(mine, d)
			}
		}
		w.judgeOne(s, mine, &v)
	}
	return v
}

func (w *world) judgeOne(s *service, mine []delivered, v *verdict) {
	count := map[string]int{}
	for _, d := range mine {
		count[short(d.typ)]++
	}
	for _, once := range []string{"created", "deployed", "removed", "published"} {
		if count[once] > 1 {
			w.fail("%s: %d events %s", s.uid, count[once], once)
		}
	}
	if s.deleted && count["deployed"] == 1 && count["removed"] != 1 {
		w.fail("%s was deployed and is gone, and nobody was told", s.uid)
	}
	if !s.deleted && count["removed"] > 0 {
		w.fail("%s is there, and was announced as removed", s.uid)
	}
	if !s.deleted && count["created"] == 0 && !w.before(s) {
		w.fail("%s was never announced", s.uid)
	}
	if !s.deleted && s.ready && count["deployed"] == 0 && !w.before(s) {
		w.fail("%s was never deployed", s.uid)
	}
	w.judgeSplits(s, mine, v)
}

// before says whether a Service was there before the first controller.
func (w *world) before(s *service) bool { return s.created.Before(w.baseline()) }

// judgeSplits lays the told splits over the committed ones, in order, in the way
// that leaves the fewest untold which somebody should have told of. The same
// split may have been committed several times.
func (w *world) judgeSplits(s *service, mine []delivered, v *verdict) {
	var told []delivered
	for _, d := range mine {
		if slices.Contains([]string{"deployed", "upgraded", "rolledback", "shifted"}, short(d.typ)) {
			told = append(told, d)
		}
	}
	baselined := w.before(s)
	cost := func(i int) int { // of leaving commit i untold
		if w.watched(s.splits[i]) {
			return 1
		}
		return 0
	}
	const never = 1 << 20
	n, m := len(s.splits), len(told)
	// best[j][i]: the least that is lost when told[:j] are laid over splits[:i].
	best := make([][]int, m+1)
	for j := range best {
		best[j] = make([]int, n+1)
		for i := range best[j] {
			best[j][i] = never
			switch {
			case j == 0 && i == 0, j == 0 && !baselined:
				best[j][i] = 0 // what came before deployed is part of it
			case i > 0:
				best[j][i] = best[j][i-1] + cost(i-1)
				if j > 0 && slices.Equal(s.splits[i-1].split, told[j-1].traffic) {
					best[j][i] = min(best[j][i], best[j-1][i-1])
				}
			}
		}
	}
	switch lost := best[m][n]; {
	case lost >= never:
		w.fail("%s: what was told is not what happened, in this order", s.uid)
	case lost > 0 && !s.deleted:
		v.lost += lost
		w.fail("%s: %d of %d splits are told by no event, though a leader that lives was told of them", s.uid, lost, n)
	}
	if !s.deleted && n > 0 && m > 0 && !slices.Equal(told[m-1].traffic, s.splits[n-1].split) {
		w.fail("%s: the last event tells of %v, and the traffic is %v", s.uid, told[m-1].traffic, s.splits[n-1].split)
	}
	if told := min(m, n); !s.deleted {
		v.pardoned += n - told
	}
}

// watched says whether a process that was told of a split is still alive and
// alone. Another that started later from a list may have journaled a later state
// before the first one, which had lost the lead, got to this one: the second
// limit of what is promised.
func (w *world) watched(c commit) bool {
	return slices.ContainsFunc(c.watchers, func(p *process) bool {
		return slices.Contains(w.processes, p) && w.lastStart <= p.started
	})
}

func short(typ string) string {
	for _, kind := range []string{"created", "deployed", "upgraded", "rolledback", "shifted", "removed", "published", "ready"} {
		if strings.Contains(typ, "."+kind+".") {
			return kind
		}
	}
	return typ
}
