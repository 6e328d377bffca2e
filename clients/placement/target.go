// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strconv"
)

// candidate is a member that may own shards of a kind.
type candidate struct {
	address string
	// quota is how many shards the plan gives it; -1 is unlimited.
	quota int
	// revision is empty if the plan does not know the member.
	revision string
}

// targets returns the address of the member that must own each shard of a kind, or nil if no member can. All members
// that have the same plan and see the same members come to the same result. The addresses must be sorted.
func targets(p *Plan, kind string, shards int, addresses []string) []string {
	if len(addresses) == 0 {
		return nil
	}
	e := p.entityType(kind, shards)
	if e == nil {
		return fill(kind, shards, even(addresses, shards))
	}
	candidates := make([]candidate, len(addresses))
	total := 0
	for i, a := range addresses {
		candidates[i].address = a
		for j, m := range p.Members {
			if m.Address == a {
				candidates[i].quota, candidates[i].revision = e.Quotas[j], m.Revision
				total += e.Quotas[j]
			}
		}
	}
	if e.Owners != nil {
		return planned(p, e, candidates)
	}
	if total == 0 {
		return fill(kind, shards, even(addresses, shards))
	}
	// The shards of members that are not there go to whoever has the most room, so that none is left over.
	for missing := shards - total; missing > 0; missing-- {
		slices.MaxFunc(pointers(candidates), func(a, b *candidate) int { return cmp.Compare(a.quota, b.quota) }).quota++
	}
	return fill(kind, shards, candidates)
}

func pointers(all []candidate) []*candidate {
	out := make([]*candidate, len(all))
	for i := range all {
		out[i] = &all[i]
	}
	return out
}

// planned gives the shards to their owners. The shards of an owner that is not there go to its Revision, so that the
// Revisions keep their shares, and there to the member that is furthest below its quota.
func planned(p *Plan, e *EntityType, candidates []candidate) []string {
	out := make([]string, e.Shards)
	owned := make([]int, len(candidates))
	var orphans []int
	for s, o := range e.Owners {
		i := -1
		if o >= 0 {
			i = slices.IndexFunc(candidates, func(c candidate) bool { return c.address == p.Members[o].Address })
		}
		if i < 0 {
			orphans = append(orphans, s)
			continue
		}
		out[s] = candidates[i].address
		owned[i]++
	}
	for _, s := range orphans {
		revision := ""
		if o := e.Owners[s]; o >= 0 {
			revision = p.Members[o].Revision
		}
		best := -1
		for i, c := range candidates {
			if best < 0 {
				best = i
				continue
			}
			b := candidates[best]
			if same := revision != "" && c.revision == revision; same != (revision != "" && b.revision == revision) {
				if same {
					best = i
				}
			} else if owned[i]-c.quota < owned[best]-b.quota {
				best = i
			}
		}
		out[s] = candidates[best].address
		owned[best]++
	}
	return out
}

// even divides shards by number.
func even(addresses []string, shards int) []candidate {
	out := make([]candidate, len(addresses))
	for i, a := range addresses {
		out[i] = candidate{address: a, quota: shards / len(addresses)}
	}
	// Which members get one more depends on their addresses alone.
	for i := range shards % len(addresses) {
		out[i].quota++
	}
	return out
}

// fill gives each shard to the member that rates it highest and has room, so that few shards change when members do.
// The quotas must be enough for all shards.
func fill(kind string, shards int, candidates []candidate) []string {
	out := make([]string, shards)
	left := make([]int, len(candidates))
	for i, c := range candidates {
		left[i] = c.quota
	}
	for s := range shards {
		best, most := -1, uint64(0)
		for i, c := range candidates {
			if r := rating(kind, s, c.address); left[i] > 0 && (best < 0 || r > most) {
				best, most = i, r
			}
		}
		if best >= 0 {
			out[s] = candidates[best].address
			left[best]--
		}
	}
	return out
}

// rating is a member's weight for a shard, as in rendezvous hashing.
func rating(kind string, shard int, address string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(kind + "/" + strconv.Itoa(shard) + "/" + address)) // a hash never fails
	x := h.Sum64()
	// FNV alone changes its high bits too little for inputs that differ at the end.
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return x
}
