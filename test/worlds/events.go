// SPDX-License-Identifier: Apache-2.0

package main

import "math"

// event is done to the pods at the beginning of a second.
type event = func(s *scene) func() error

// each does something once at every multiple of a time since the split, from then on.
func each(seconds float64, do func(s *scene) error) event {
	return func(s *scene) func() error {
		return func() error {
			if s.at > 0 && math.Mod(s.at, seconds) == 0 {
				return do(s)
			}
			return nil
		}
	}
}

// once does something at a time since the split.
func once(at float64, do func(s *scene) error) event {
	return func(s *scene) func() error {
		return func() error {
			if s.at == at {
				return do(s)
			}
			return nil
		}
	}
}

// both does both.
func both(a, b event) event {
	return func(s *scene) func() error {
		first, second := a(s), b(s)
		return func() error {
			if err := first(); err != nil {
				return err
			}
			return second()
		}
	}
}

// step has the clocks of some sides' nodes step. The kernel derives the start of a process from them.
func step(seconds float64, sides ...side) func(s *scene) error {
	return func(s *scene) error {
		for _, p := range s.pods {
			for _, one := range sides {
				if p.side != one {
					continue
				}
				p.entry.start += seconds
				if p.app != nil {
					p.app.start += seconds
				}
			}
		}
		return nil
	}
}

// replace removes the oldest pod of a side, and starts another one.
func replace(of side) func(s *scene) error {
	return func(s *scene) error {
		for _, p := range s.pods {
			if p.side != of {
				continue
			}
			next := newPod(s, of, p.index, s.at)
			for shard, owner := range s.owner {
				if owner == p {
					s.owner[shard] = next
				}
			}
			s.pods = append(s.pods, next)
			return s.remove(p)
		}
		return nil
	}
}

// downFor is how long a container takes to start again, in seconds.
const downFor = 10

// kills has the pods of both sides be killed for lack of memory, each after random times with this mean, from the
// beginning.
func kills(mean float64) event { return killsEach([2]float64{mean, mean}) }

// killsEach does so with another mean for each side. Before the controller watches, the pods were killed as often.
func killsEach(mean [2]float64) event {
	return func(s *scene) func() error {
		next := map[*pod]float64{}
		for _, p := range s.pods {
			for at := p.born + s.rng.ExpFloat64()*mean[p.side]; at < s.at; at += s.rng.ExpFloat64() * mean[p.side] {
				p.restarts++
			}
		}
		return func() error {
			for _, p := range s.pods {
				at, known := next[p]
				switch {
				case !known:
					next[p] = s.at + s.rng.ExpFloat64()*mean[p.side]
				case s.at >= at:
					p.restart(s, downFor, true)
					next[p] = s.at + s.rng.ExpFloat64()*mean[p.side]
				}
			}
			return nil
		}
	}
}

// drain has the node of a side's oldest pod be drained. The kubelet ends the pod, which stays as a failed one, and
// another one starts.
func drain(of side) func(s *scene) error {
	return func(s *scene) error {
		for _, p := range s.of(of)[:1] {
			next := newPod(s, of, p.index, s.at)
			for shard, owner := range s.owner {
				if owner == p {
					s.owner[shard] = next
				}
			}
			s.pods = append(s.pods, next)
			p.process++
			p.failed, p.disrupted = true, true
		}
		return nil
	}
}

// killedOnce has every pod be killed once within this time after the split.
func killedOnce(within float64) event {
	return func(s *scene) func() error {
		at := map[*pod]float64{}
		return func() error {
			for _, p := range s.pods {
				if s.at < 0 {
					break
				}
				when, known := at[p]
				switch {
				case !known:
					at[p] = s.rng.Float64() * within
				case when >= 0 && s.at >= when:
					p.restart(s, downFor, true)
					at[p] = -1
				}
			}
			return nil
		}
	}
}

// kill has a canary's pod be killed.
func kill(s *scene) error {
	if up := s.of(canary); len(up) > 0 {
		up[0].restart(s, downFor, false)
	}
	return nil
}

// away has all pods end again and again while what they need is away. The kubelet waits twice as long each time.
func away(from, until float64) event {
	return func(s *scene) func() error {
		ended := map[*pod]int{}
		return func() error {
			for _, p := range s.pods {
				if s.at >= from && s.at < until && p.serves(s.at) && s.at >= p.cold+2 {
					p.restart(s, downFor*math.Pow(2, float64(ended[p])), false)
					ended[p]++
				}
			}
			return nil
		}
	}
}

// silence has the application of the canary's first pod export nothing any more.
func silence(s *scene) error {
	s.of(canary)[0].mute = true
	return nil
}
