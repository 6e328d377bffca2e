// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// planned reports whether the members of a Service's cluster are to follow a plan.
func (s *service) planned() bool { return s.stateful && s.key.Name == "s1" }

// placement is how far the cluster of a Service follows its plan. For a moment after a change, the plan is still for
// the split before it.
func (c *cluster) placement(s *service) *lifecycle.Placement {
	if !s.planned() {
		return &lifecycle.Placement{}
	}
	n := len(s.splits)
	if n > 1 && c.now.Sub(s.shifted) < settles/3 {
		n--
	}
	if n == 0 {
		return nil
	}
	p := &lifecycle.Placement{Mode: lifecycle.PlacementEnforce, Split: s.splits[n-1].split}
	if c.now.Sub(s.moved) < settles || c.now.Sub(s.shifted) < settles {
		p.Pending = 7
	}
	return p
}

// judgePlacement checks that what was announced of a cluster's placement is true, and complete.
func (w *world) judgePlacement(s *service, mine []delivered) {
	var last []lifecycle.Share
	owed := false
	for _, d := range mine {
		switch short(d.typ) {
		case "upgraded", "rolledback", "shifted":
			if last != nil && !slices.Equal(d.traffic, last) {
				last, owed = nil, true
			}
		}
		if short(d.typ) != "cluster.rebalanced" {
			continue
		}
		if !s.planned() {
			w.fail("%s: its cluster has no plan, and was announced as rebalanced", s.uid)
		}
		if !slices.ContainsFunc(s.splits, func(c commit) bool { return slices.Equal(c.split, d.traffic) }) {
			w.fail("%s: its cluster was announced as rebalanced for %v, which is none of its splits", s.uid, d.traffic)
		}
		if s.restored == 0 && slices.Equal(d.traffic, last) {
			w.fail("%s: its cluster was announced as rebalanced for %v twice", s.uid, d.traffic)
		}
		last, owed = d.traffic, false
	}
	// A backup may be from before the first split.
	if n := len(s.splits); s.planned() && !s.deleted && n > 0 && s.splits[n-1].era >= s.era {
		w.judgeLastPlacement(s, s.splits[n-1].split, last, owed)
	}
}

// judgeLastPlacement checks the end of a history, when every shard is in place. owed: the split was announced to have
// changed since the last placement was.
func (w *world) judgeLastPlacement(s *service, want, last []lifecycle.Share, owed bool) {
	if slices.ContainsFunc(want, func(share lifecycle.Share) bool { return !slices.Contains(s.members, share.Revision) }) {
		return
	}
	m := w.remembered(s)
	switch {
	case m.Cluster == nil || m.Cluster.Placement == nil || !slices.Equal(m.Cluster.Placement.Split, want):
		w.fail("%s: its shards are where the plan for %v wants them, and the memory has %+v", s.uid, want, m.Cluster)
	case owed && s.restored == 0:
		w.fail("%s: its shards are where the plan for %v wants them, and no event announced it", s.uid, want)
	case last != nil && !slices.Equal(last, want) && s.restored == 0:
		w.fail("%s: its shards are where the plan for %v wants them, and %v was announced last", s.uid, want, last)
	}
}
