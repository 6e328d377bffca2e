// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"math"
	"math/rand/v2"
)

// begin starts the requests of this second.
func (s *scene) begin() {
	rate := s.rps
	if s.traffic != nil {
		rate = s.traffic(s.at)
	}
	s.serving = [2][]*pod{s.of(baseline), s.of(canary)}
	for _, p := range s.pods {
		p.fate = s.fates(moment{at: s.at, pod: p, rng: s.rng})
	}
	for n := poisson(s.rng, rate); n > 0; n-- {
		if entry := s.route(); entry != nil {
			s.start(entry)
		}
	}
}

// route returns the pod that a request enters at; nil if it ends before it reaches one.
func (s *scene) route() *pod {
	to := baseline
	if s.at >= 0 && s.rng.Float64() < s.share {
		to = canary
		if s.lost > 0 && s.rng.Float64() < s.lost {
			s.gate[canary].count("503", 0)
			return nil
		}
	}
	serving := s.serving[to]
	if len(serving) == 0 {
		s.gate[to].count("503", 0)
		return nil
	}
	return serving[s.rng.IntN(len(serving))]
}

// start begins one request, and those that its failure leads to.
func (s *scene) start(entry *pod) {
	r := request{entry: entry, shard: -1}
	switch u, f := s.rng.Float64(), entry.fate; {
	case u < f.entry:
		r.code, r.took = "500", usualTime
	case u < f.entry+f.entryHangs:
		r.code, r.took = timedOut, s.timeout.Seconds()
	default:
		r = s.handled(entry)
	}
	s.open(r)
	if r.code[0] != '5' {
		return
	}
	for range s.inRow - 1 {
		s.open(r)
	}
	for s.retries > 0 && s.rng.Float64() < s.retries {
		if again := s.route(); again != nil {
			if r.entry = again; !s.sharded() {
				r.handler, r.process = again, again.process
			}
			s.open(r)
		}
	}
}

// handled decides who handles a request, and how it ends.
func (s *scene) handled(entry *pod) request {
	r := request{entry: entry, handler: entry, code: "200"}
	if s.sharded() {
		r.shard = s.shard()
		r.handler = s.owner[r.shard]
	}
	r.process = r.handler.process
	f := r.handler.fate
	if f.ofShard != nil {
		f = f.ofShard(r.shard, f)
	}
	if r.took = s.takes(f); math.IsInf(r.took, 1) {
		r.took, r.code = s.timeout.Seconds(), timedOut
	} else if s.rng.Float64() < f.fails/float64(max(1, s.inRow)) {
		r.code = cmp.Or(f.code, "500")
	}
	return r
}

// open has a request be open until the second in which it ends.
func (s *scene) open(r request) {
	if r.handler != nil && r.handler.app != nil {
		r.handler.handled.started.value++
	}
	ends := int(math.Floor(s.at + s.rng.Float64() + r.took))
	if ends <= int(s.at) {
		s.end(r)
		return
	}
	s.due[ends] = append(s.due[ends], r)
}

// finish ends the requests that end in this second.
func (s *scene) finish() {
	for _, r := range s.due[int(s.at)] {
		s.end(r)
	}
	delete(s.due, int(s.at))
}

func (s *scene) end(r request) {
	if r.entry.gone {
		// The client sees that its connection breaks off.
		s.gate[r.entry.side].count("503", r.took)
		return
	}
	switch {
	case r.handler == nil:
	case r.process != r.handler.process:
		r.code = "502" // its process has ended
	case r.handler.app != nil:
		r.handler.handle(r.shard, r.entry.side, r.code, r.took)
	}
	r.entry.enter(r.code, r.took)
	s.gate[r.entry.side].count(r.code, r.took)
}

// takes returns how long a request takes, in seconds.
func (s *scene) takes(f fate) float64 {
	u := s.rng.Float64()
	switch {
	case u < f.hangs:
		return math.Inf(1)
	case u < f.hangs+f.streams:
		return s.rng.ExpFloat64() * streamFor
	case u < f.hangs+f.streams+f.slow:
		return slowFrom + .1 + 2*s.rng.Float64()
	case f.takes > 0:
		return s.rng.ExpFloat64() * f.takes
	}
	return s.rng.ExpFloat64() * usualTime
}

// poisson draws from a Poisson distribution.
func poisson(rng *rand.Rand, mean float64) int {
	if mean > 500 {
		return max(0, int(math.Round(mean+math.Sqrt(mean)*rng.NormFloat64())))
	}
	n, sum := -1, 0.0
	for ; sum < mean; n++ {
		sum += rng.ExpFloat64()
	}
	return max(0, n)
}
