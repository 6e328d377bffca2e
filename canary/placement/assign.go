// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"
	"sort"
)

// assign returns the owner of each shard, and the moves between members that stay.
func (c *cluster) assign(held bool, in Input) ([]string, []Move) {
	owners := make([]string, c.shards)
	for _, m := range c.members {
		for _, s := range m.shards {
			owners[s] = m.Name
		}
	}
	pool := newPool(in.Load, c.shards)
	seats, surplus := map[*member]int{}, map[*member]int{}
	kept := map[int]bool{}
	for _, m := range c.members {
		seats[m] = max(0, m.quota-m.owned())
		for _, s := range m.planned[:min(seats[m], len(m.planned))] {
			kept[s], owners[s] = true, m.Name
			seats[m]--
			m.shards = append(m.shards, s)
		}
		if !held {
			surplus[m] = max(0, m.owned()-m.quota)
		}
	}
	moves := c.keepPending(owners, seats, surplus, in.Moving)
	for _, m := range c.members {
		if surplus[m] > 0 {
			free := slices.DeleteFunc(slices.Clone(m.shards),
				func(s int) bool { _, moving := in.Moving[s]; return moving || owners[s] != m.Name })
			pool.add(free, min(surplus[m], len(free)))
		}
	}
	orphans := slices.DeleteFunc(slices.Clone(c.orphans), func(s int) bool { return kept[s] })
	pool.add(orphans, len(orphans))
	c.limit(seats, pool.left)
	pool.sort()
	for _, m := range c.members {
		need := m.share*pool.total - pool.sum(m.shards)
		sample := pool.sample(seats[m])
		rest := 0.0
		for _, load := range sample {
			rest += load
		}
		for _, load := range sample {
			s := pool.take(load * need / max(rest, tiny))
			need, rest = need-pool.loadOf(s), rest-load
			if owners[s] != "" {
				moves = append(moves, Move{Shard: s, From: owners[s], To: m.Name})
			}
			owners[s] = m.Name
		}
	}
	// In this order, each part of the moves is a fair sample of all of them. It is another one than that in which the pool
	// gives shards of the same load, by which all moves to one member would come before those to the next.
	slices.SortFunc(moves, func(a, b Move) int { return cmp.Compare(mix(^a.Shard), mix(^b.Shard)) })
	return owners, moves
}

// keepPending returns the moves of the last plan that are still of use. Members may have begun with them, and would
// have to move the shards again if others were chosen.
func (c *cluster) keepPending(owners []string, seats, surplus map[*member]int, moving map[int]string) []Move {
	var moves []Move
	gained := map[*member][]int{}
	for _, m := range c.members {
		for _, p := range m.pending {
			if _, is := moving[p.shard]; is || surplus[m] == 0 || seats[p.to] == 0 {
				continue
			}
			surplus[m]--
			seats[p.to]--
			moves = append(moves, Move{Shard: p.shard, From: m.Name, To: p.to.Name})
			owners[p.shard] = p.to.Name
			gained[p.to] = append(gained[p.to], p.shard)
		}
	}
	for m, shards := range gained {
		m.shards = append(m.shards, shards...)
	}
	return moves
}

// tiny replaces a sum of loads that is zero.
const tiny = 1e-300

// limit takes seats away until there are as many as shards to give. There are more if nothing moves, or if a shard that
// is being handed over should move again. The members that lack most are served.
func (c *cluster) limit(seats map[*member]int, shards int) {
	total := 0
	for _, n := range seats {
		total += n
	}
	var lack []*member
	for _, m := range slices.Backward(c.members) {
		if seats[m] > 0 {
			lack = append(lack, m)
		}
	}
	// Each round takes one seat from each member, so that all of them then lack the same.
	for total > shards {
		for _, m := range lack[:min(len(lack), total-shards)] {
			seats[m]--
			total--
		}
		lack = slices.DeleteFunc(lack, func(m *member) bool { return seats[m] == 0 })
	}
}

// pool is the shards that can be given to a member, in the order of their load.
type pool struct {
	load  []float64
	total float64
	// left is how many of them are given.
	left       int
	candidates []candidate
	// after and before lead from each candidate to the next one that is not given, itself included. They are one longer,
	// and shifted by one, so that both ends have a place.
	after, before []int
}

type candidate struct {
	shard  int
	source *source
}

// source is where shards come from, and how many of them it gives.
type source struct {
	gives      int
	candidates []int
}

func newPool(load []float64, shards int) *pool {
	p := &pool{load: load, total: float64(shards)}
	if load != nil {
		p.total = p.sum(sequence(shards))
	}
	if p.total == 0 {
		p.load, p.total = nil, float64(shards)
	}
	return p
}

// add lets a number of these shards be given.
func (p *pool) add(shards []int, number int) {
	if number == 0 {
		return
	}
	p.left += number
	from := &source{gives: number}
	for _, s := range shards {
		p.candidates = append(p.candidates, candidate{s, from})
	}
}

func (p *pool) loadOf(shard int) float64 {
	if p.load == nil {
		return 1
	}
	return p.load[shard]
}

func (p *pool) sum(shards []int) float64 {
	sum := 0.0
	for _, s := range shards {
		sum += p.loadOf(s)
	}
	return sum
}

func (p *pool) sort() {
	slices.SortFunc(p.candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(p.loadOf(a.shard), p.loadOf(b.shard)), cmp.Compare(mix(a.shard), mix(b.shard)))
	})
	for i, c := range p.candidates {
		c.source.candidates = append(c.source.candidates, i)
	}
	p.after, p.before = sequence(len(p.candidates)+2), sequence(len(p.candidates)+2)
}

// sample returns loads as a number of shards should have them, the heaviest first: spread over all that can be given.
// The heavy ones bring a member near to its part of the load, and the light ones that follow make up for what they
// miss.
func (p *pool) sample(number int) []float64 {
	loads := make([]float64, number)
	for i := range loads {
		at := (2*i + 1) * len(p.candidates) / (2 * number)
		loads[i] = p.loadOf(p.candidates[len(p.candidates)-1-at].shard)
	}
	return loads
}

// take gives the shard whose load is closest to what is wanted.
func (p *pool) take(load float64) int {
	i := sort.Search(len(p.candidates), func(i int) bool { return p.loadOf(p.candidates[i].shard) >= load })
	above, below := find(p.after, i+1)-1, find(p.before, i)-1
	chosen := above
	if above == len(p.candidates) || below >= 0 &&
		load-p.loadOf(p.candidates[below].shard) < p.loadOf(p.candidates[above].shard)-load {
		chosen = below
	}
	from := p.candidates[chosen].source
	p.remove(chosen)
	p.left--
	if from.gives--; from.gives == 0 {
		for _, i := range from.candidates {
			p.remove(i)
		}
	}
	return p.candidates[chosen].shard
}

func (p *pool) remove(i int) {
	if p.after[i+1] == i+1 {
		p.after[i+1], p.before[i+1] = i+2, i
	}
}

// find follows links to the first place that leads to itself, and shortens the way.
func find(links []int, i int) int {
	for links[i] != i {
		links[i] = links[links[i]]
		i = links[i]
	}
	return i
}

func sequence(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// mix spreads the ids of shards, so that neighbours do not move together (the finalizer of SplitMix64, Steele et al.
// 2014).
func mix(shard int) uint64 {
	z := uint64(shard) + 0x9e3779b97f4a7c15 //nolint:gosec // any 64 bits will do
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
