// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"fmt"
	"time"
)

// phase is how far this member is with a shard.
type phase int

const (
	// unowned: this member does not hold the shard.
	unowned phase = iota
	// claiming: it asks the others for the shard.
	claiming
	// held: requests may enter the shard.
	held
	// releasing: it waits until all that is active has stopped.
	releasing
)

// shard is what this member knows of a shard.
type shard struct {
	phase phase
	claim *claimed
	// waiting are requests that wait for the claim.
	waiting []func(Reply)
	// to is the member that gets the shard, and claimers wait for the end of what is active.
	to       string
	claimers []func(Reply)
	// version is that of the newest plan by which this member let another one have the shard. It lets none have it by an
	// older one.
	version int64
	// epoch is the highest that this member knows.
	epoch int64
	// holder is the member that was last known to hold the shard, at this time.
	holder string
	at     time.Time
}

// Handle answers the request of a member, except Activate, which is for Enter. It may call respond later, at most once.
func (g *Group) Handle(r Request, respond func(Reply)) {
	switch {
	case r.Claim != nil && g.valid(r.Claim.ShardID, false, respond):
		g.answer(*r.Claim, respond)
	case r.Take != nil && g.valid(r.Take.ShardID, true, respond):
		g.take(*r.Take, respond)
	case r.Status:
		respond(Reply{Status: g.status()})
	case r.Released != nil:
		g.runtime.Dropped(*r.Released)
	case r.Left != nil:
		g.Members.leaves(*r.Left)
	}
}

// valid answers requests that no member of the same configuration sends. A member without the kind never holds its
// shards, and agrees to each claim.
func (g *Group) valid(id ShardID, needsKind bool, respond func(Reply)) bool {
	why := ""
	if n := g.settings.Shards; id.Shard < 0 || id.Shard >= n {
		why = fmt.Sprintf("there is no shard %s, because %s has %d shards here; all members must have the same number",
			id, id.Kind, n)
	} else if needsKind && !g.runtime.Has(id.Kind) {
		why = fmt.Sprintf("kind %q is not registered here; register it in all members that have it", id.Kind)
	}
	if why != "" {
		respond(Reply{Error: why})
	}
	return why == ""
}

func (g *Group) shard(id ShardID) *shard {
	s := g.shards[id]
	if s == nil {
		s = &shard{}
		g.shards[id] = s
	}
	return s
}

// recently is how long a member trusts that another one holds a shard, without asking.
const recently = 500 * time.Millisecond

// Enter asks for a shard at this member, for a caller who chose it by a plan of this version. The reply is Granted if
// this member holds the shard (its Epoch is then higher than that of each member before), or names the member to ask
// instead; it may come later. When it is granted, add to what is Active before the function returns.
func (g *Group) Enter(id ShardID, version int64, reply func(Reply)) {
	if !g.valid(id, true, reply) {
		return
	}
	s := g.shard(id)
	switch s.phase {
	case held:
		reply(Reply{Granted: true, Epoch: s.epoch})
	case claiming:
		s.waiting = append(s.waiting, reply)
	case releasing:
		reply(Reply{Holder: s.to, Version: s.version})
	case unowned:
		target, newest := g.Target(id)
		switch {
		case g.ending || version <= newest && target != g.Members.self:
			reply(Reply{Holder: target, Version: newest})
		case time.Since(s.at) < recently && s.holder != g.Members.self && g.Members.Has(s.holder):
			reply(Reply{Holder: s.holder, Version: newest})
		default:
			s.waiting = append(s.waiting, reply)
			g.begin(s, &claimed{id: id, version: max(newest, version)})
		}
	}
}

// Stopped ends the release of a shard where nothing is active any more.
func (g *Group) Stopped(id ShardID) {
	if s := g.shard(id); s.phase == releasing {
		g.gone(id, s)
	}
}

// take starts to get a shard from the member that holds it.
func (g *Group) take(t Take, respond func(Reply)) {
	s := g.shard(t.ShardID)
	if s.phase == unowned && !g.ending {
		_, version := g.Target(t.ShardID)
		g.begin(s, &claimed{id: t.ShardID, version: max(version, t.Version), move: true, holder: t.Holder})
	}
	respond(Reply{Granted: s.phase == claiming || s.phase == held})
}

// begin asks the others for a shard.
func (g *Group) begin(s *shard, c *claimed) {
	// It ends with the claim: by its result, or because another member's claim wins.
	c.ctx, c.cancel = context.WithTimeout(g.running, claimWithin)
	s.phase, s.claim = claiming, c
	go func() {
		defer c.cancel()
		g.ask(c)
		g.runtime.Serial(func() { g.claimed(c) })
	}()
}

// claimed ends a claim.
func (g *Group) claimed(c *claimed) {
	s := g.shard(c.id)
	if s.claim != c {
		return // another member's claim has won
	}
	s.claim = nil
	all := s.waiting
	s.waiting = nil
	if !c.granted {
		s.phase, s.holder, s.at = unowned, c.heldBy, time.Now()
		for _, reply := range all {
			reply(Reply{Holder: c.heldBy, Version: c.heldVersion})
		}
		return
	}
	if c.move {
		g.moves.Add(1)
	}
	s.phase, s.version = held, max(s.version, c.version)
	s.epoch = max(s.epoch+1, c.epoch, c.version)
	for _, reply := range all {
		reply(Reply{Granted: true, Epoch: s.epoch})
	}
}

// answer says whether another member may have a shard.
func (g *Group) answer(c Claim, respond func(Reply)) {
	s := g.shard(c.ShardID)
	target, version := g.Target(c.ShardID)
	if c.Version < s.version {
		respond(Reply{Holder: target, Version: max(version, s.version)})
		return
	}
	switch s.phase {
	case unowned:
		g.grant(s, c, respond)
	case claiming:
		if !c.beats(s.claim, g.Members.self) {
			respond(Reply{Holder: g.Members.self, Version: s.claim.version})
			return
		}
		g.abort(s, c.From)
		g.grant(s, c, respond)
	case held:
		if !c.Move || target != c.From && c.Version <= version {
			respond(Reply{Holder: g.Members.self, Version: version})
			return
		}
		s.version = c.Version
		s.claimers = append(s.claimers, respond)
		g.release(c.ShardID, s, c.From)
	case releasing:
		if s.to == c.From || s.to == "" {
			s.claimers = append(s.claimers, respond)
			return
		}
		respond(Reply{Holder: s.to, Version: s.version})
	}
}

func (g *Group) grant(s *shard, c Claim, respond func(Reply)) {
	s.version, s.holder, s.at = max(s.version, c.Version), c.From, time.Now()
	respond(Reply{Granted: true, After: g.Members.away(time.Now()), Epoch: s.epoch})
}

// abort gives up a claim, because another member gets the shard.
func (g *Group) abort(s *shard, to string) {
	s.claim.cancel()
	s.phase, s.claim = unowned, nil
	for _, reply := range s.waiting {
		reply(Reply{Holder: to, Version: s.version})
	}
	s.waiting = nil
}

// release stops what is active in a shard.
func (g *Group) release(id ShardID, s *shard, to string) {
	s.phase, s.to = releasing, to
	if g.runtime.Active(id) == 0 {
		g.gone(id, s)
		return
	}
	g.runtime.Stop(id)
}

// gone ends a release: from now, another member may hold the shard.
func (g *Group) gone(id ShardID, s *shard) {
	s.phase, s.holder, s.at = unowned, s.to, time.Now()
	for _, respond := range s.claimers {
		respond(Reply{Granted: true, After: g.Members.away(time.Now()), Epoch: s.epoch})
	}
	s.claimers = nil
	g.tell(Request{Released: &Released{ShardID: id, From: g.Members.self, To: s.to}})
	g.finish()
}

func (g *Group) drain() {
	g.ending = true
	for id, s := range g.shards {
		switch s.phase {
		case claiming:
			g.abort(s, "")
		case held:
			g.release(id, s, "")
		case unowned, releasing:
		}
	}
	g.finish()
}

// finish tells everybody once nothing is left to hand over.
func (g *Group) finish() {
	if !g.ending || g.ended {
		return
	}
	for _, s := range g.shards {
		if s.phase != unowned {
			return
		}
	}
	g.ended = true
	me := g.Members.leave()
	// Only this member knows of a process before it. Until that is over, the others must go on to ask, or wait until the
	// API says that the pod is gone.
	me.Done = !g.Members.haunted(time.Now())
	g.done = me.Done
	g.tell(Request{Left: &me})
	close(g.drained)
}

func (g *Group) status() *Status {
	_, version := g.Target(ShardID{})
	out := &Status{Version: version, Shards: map[string]map[int]int{}, Busy: map[string][]int{}}
	for id, s := range g.shards {
		if s.phase == held || s.phase == releasing {
			if out.Shards[id.Kind] == nil {
				out.Shards[id.Kind] = map[int]int{}
			}
			out.Shards[id.Kind][id.Shard] = g.runtime.Active(id)
		}
		if s.phase == releasing || s.phase == claiming && s.claim.move {
			out.Busy[id.Kind] = append(out.Busy[id.Kind], id.Shard)
		}
	}
	return out
}
