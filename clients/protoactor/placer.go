// SPDX-License-Identifier: Apache-2.0

package protoactor

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// phase is how far this member is with a shard.
type phase int

const (
	// unowned: this member does not hold the shard.
	unowned phase = iota
	// claiming: it asks the others for the shard.
	claiming
	// held: it may activate grains of the shard.
	held
	// releasing: it waits until the grains have stopped.
	releasing
)

// shard is what this member knows of a shard.
type shard struct {
	phase phase
	claim *claimed
	// grains are the active ones, by identity.
	grains map[string]*grain
	// waiting are activations that wait for the claim.
	waiting []waiting
	// to is the member that gets the shard, and claimers wait for the grains to stop.
	to       string
	claimers []*actor.PID
	// version is that of the newest plan by which this member let another one have the shard. It lets none have it by an
	// older one.
	version int64
	// holder is the member that was last known to hold the shard, at this time.
	holder string
	at     time.Time
}

type grain struct {
	id       shardID
	identity string
	pid      *actor.PID
	gate     *gate
	address  *actor.PID
}

type waiting struct {
	sender   *actor.PID
	identity string
}

// placer is the placement actor of a member. It alone changes which shards the member holds.
type placer struct {
	lookup *Lookup
	shards map[shardID]*shard
	// grains are all active ones, by the id of their PID.
	grains map[string]*grain
	// ending: this member leaves the cluster, or was expelled. ended: it holds nothing any more.
	ending, ended bool
}

// drain makes the placer stop all grains, for good.
type drain struct{}

// Receive implements actor.Actor.
func (p *placer) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *wrapperspb.StringValue:
		var r request
		if err := json.Unmarshal([]byte(m.GetValue()), &r); err != nil {
			p.respond(ctx, ctx.Sender(), reply{Error: "reading a request: " + err.Error()})
			return
		}
		p.handle(ctx, r)
	case *claimed:
		p.claimed(ctx, m)
	case *actor.Terminated:
		p.terminated(ctx, m.Who)
	case *drain:
		p.drain(ctx)
	}
}

func (p *placer) respond(ctx actor.Context, to *actor.PID, r reply) {
	if to != nil {
		ctx.Send(to, encode(r))
	}
}

func (p *placer) handle(ctx actor.Context, r request) {
	switch {
	case r.Activate != nil && p.valid(ctx, r.Activate.shardID, true):
		p.activate(ctx, *r.Activate)
	case r.Claim != nil && p.valid(ctx, r.Claim.shardID, false):
		p.answer(ctx, *r.Claim)
	case r.Take != nil && p.valid(ctx, r.Take.shardID, true):
		p.take(ctx, *r.Take)
	case r.Status:
		p.respond(ctx, ctx.Sender(), reply{Status: p.status()})
	case r.Released != nil:
		p.lookup.dropped(*r.Released)
	case r.Left != nil:
		p.lookup.members.leaves(*r.Left)
	}
}

// valid answers requests that no member of the same configuration sends. A member without the kind never holds its
// shards, and agrees to each claim.
func (p *placer) valid(ctx actor.Context, id shardID, needsKind bool) bool {
	why := ""
	if n := p.lookup.settings.Shards; id.Shard < 0 || id.Shard >= n {
		why = fmt.Sprintf("there is no shard %s, because %s has %d shards here; all members must have the same number", id, id.Kind, n)
	} else if _, known := p.lookup.cluster.TryGetClusterKind(id.Kind); !known && needsKind {
		why = fmt.Sprintf("kind %q is not registered here; register it in all members that have it", id.Kind)
	}
	if why != "" {
		p.respond(ctx, ctx.Sender(), reply{Error: why})
	}
	return why == ""
}

func (p *placer) shard(id shardID) *shard {
	s := p.shards[id]
	if s == nil {
		s = &shard{grains: map[string]*grain{}}
		p.shards[id] = s
	}
	return s
}

// recently is how long a member trusts that another one holds a shard, without asking.
const recently = 500 * time.Millisecond

// activate answers with the grain of an identity, or with the member to ask instead.
func (p *placer) activate(ctx actor.Context, a activate) {
	s := p.shard(a.shardID)
	switch s.phase {
	case held:
		p.respond(ctx, ctx.Sender(), reply{PID: p.grain(ctx, a.shardID, a.Identity).address.GetId()})
	case claiming:
		s.waiting = append(s.waiting, waiting{ctx.Sender(), a.Identity})
	case releasing:
		p.respond(ctx, ctx.Sender(), reply{Holder: s.to, Version: s.version})
	case unowned:
		target, version := p.lookup.target(a.shardID)
		switch {
		case p.ending || a.Version <= version && target != p.lookup.members.self:
			p.respond(ctx, ctx.Sender(), reply{Holder: target, Version: version})
		case time.Since(s.at) < recently && s.holder != p.lookup.members.self && p.lookup.members.has(s.holder):
			p.respond(ctx, ctx.Sender(), reply{Holder: s.holder, Version: version})
		default:
			s.waiting = append(s.waiting, waiting{ctx.Sender(), a.Identity})
			p.begin(ctx, s, &claimed{id: a.shardID, version: max(version, a.Version)})
		}
	}
}

// grain returns the grain of an identity, and activates it first if need be. The member must hold the shard.
func (p *placer) grain(ctx actor.Context, id shardID, identity string) *grain {
	s := p.shard(id)
	if g := s.grains[identity]; g != nil {
		return g
	}
	kind, _ := p.lookup.cluster.TryGetClusterKind(id.Kind)
	props := cluster.WithClusterIdentity(kind.Props, cluster.NewClusterIdentity(identity, id.Kind))
	g := &grain{id: id, identity: identity, pid: ctx.SpawnPrefix(props, id.Kind+"/"+identity)}
	kind.Inc()
	g.gate, g.address = openGate(ctx.ActorSystem(), g.pid)
	s.grains[identity], p.grains[g.pid.GetId()] = g, g
	return g
}

// terminated forgets a grain that has stopped.
func (p *placer) terminated(ctx actor.Context, who *actor.PID) {
	g := p.grains[who.GetId()]
	if g == nil {
		return
	}
	delete(p.grains, who.GetId())
	g.gate.close(g.address)
	if kind, known := p.lookup.cluster.TryGetClusterKind(g.id.Kind); known {
		kind.Dec()
	}
	p.lookup.forget(g.id, g.identity, g.address)
	s := p.shard(g.id)
	if s.grains[g.identity] == g {
		delete(s.grains, g.identity)
	}
	if s.phase == releasing && len(s.grains) == 0 {
		p.gone(ctx, g.id, s)
	}
}

// take starts to get a shard from the member that holds it.
func (p *placer) take(ctx actor.Context, t take) {
	s := p.shard(t.shardID)
	if s.phase == unowned && !p.ending {
		_, version := p.lookup.target(t.shardID)
		p.begin(ctx, s, &claimed{id: t.shardID, version: max(version, t.Version), move: true, holder: t.Holder})
	}
	p.respond(ctx, ctx.Sender(), reply{Granted: s.phase == claiming || s.phase == held})
}

// begin asks the others for a shard.
func (p *placer) begin(ctx actor.Context, s *shard, c *claimed) {
	// It ends with the claim: by its result, or because another member's claim wins.
	c.ctx, c.cancel = context.WithTimeout(p.lookup.running, claimWithin)
	s.phase, s.claim = claiming, c
	self, system := ctx.Self(), ctx.ActorSystem()
	go func() {
		defer c.cancel()
		p.lookup.ask(c)
		system.Root.Send(self, c)
	}()
}

// claimed ends a claim.
func (p *placer) claimed(ctx actor.Context, c *claimed) {
	s := p.shard(c.id)
	if s.claim != c {
		return // another member's claim has won
	}
	s.claim = nil
	all := s.waiting
	s.waiting = nil
	if !c.granted {
		s.phase, s.holder, s.at = unowned, c.heldBy, time.Now()
		for _, w := range all {
			p.respond(ctx, w.sender, reply{Holder: c.heldBy, Version: c.heldVersion})
		}
		return
	}
	if c.move {
		p.lookup.moves.Add(1)
	}
	s.phase, s.version = held, max(s.version, c.version)
	for _, w := range all {
		p.respond(ctx, w.sender, reply{PID: p.grain(ctx, c.id, w.identity).address.GetId()})
	}
}

// answer says whether another member may have a shard.
func (p *placer) answer(ctx actor.Context, c claim) {
	s := p.shard(c.shardID)
	target, version := p.lookup.target(c.shardID)
	if c.Version < s.version {
		p.respond(ctx, ctx.Sender(), reply{Holder: target, Version: max(version, s.version)})
		return
	}
	switch s.phase {
	case unowned:
		p.grant(ctx, s, c)
	case claiming:
		if !c.beats(s.claim, p.lookup.members.self) {
			p.respond(ctx, ctx.Sender(), reply{Holder: p.lookup.members.self, Version: s.claim.version})
			return
		}
		p.abort(ctx, s, c.From)
		p.grant(ctx, s, c)
	case held:
		if !c.Move || target != c.From && c.Version <= version {
			p.respond(ctx, ctx.Sender(), reply{Holder: p.lookup.members.self, Version: version})
			return
		}
		s.version = c.Version
		s.claimers = append(s.claimers, ctx.Sender())
		p.release(ctx, c.shardID, s, c.From)
	case releasing:
		if s.to == c.From || s.to == "" {
			s.claimers = append(s.claimers, ctx.Sender())
			return
		}
		p.respond(ctx, ctx.Sender(), reply{Holder: s.to, Version: s.version})
	}
}

func (p *placer) grant(ctx actor.Context, s *shard, c claim) {
	s.version, s.holder, s.at = max(s.version, c.Version), c.From, time.Now()
	p.respond(ctx, ctx.Sender(), reply{Granted: true, After: p.lookup.members.away(time.Now())})
}

// abort gives up a claim, because another member gets the shard.
func (p *placer) abort(ctx actor.Context, s *shard, to string) {
	s.claim.cancel()
	s.phase, s.claim = unowned, nil
	for _, w := range s.waiting {
		p.respond(ctx, w.sender, reply{Holder: to, Version: s.version})
	}
	s.waiting = nil
}

// release stops the grains of a shard, after the messages that they already have.
func (p *placer) release(ctx actor.Context, id shardID, s *shard, to string) {
	s.phase, s.to = releasing, to
	for _, g := range s.grains {
		g.gate.close(g.address)
		ctx.Poison(g.pid)
	}
	if len(s.grains) == 0 {
		p.gone(ctx, id, s)
	}
}

// gone ends a release: from now, another member may hold the shard.
func (p *placer) gone(ctx actor.Context, id shardID, s *shard) {
	s.phase, s.holder, s.at = unowned, s.to, time.Now()
	for _, c := range s.claimers {
		p.respond(ctx, c, reply{Granted: true, After: p.lookup.members.away(time.Now())})
	}
	s.claimers = nil
	p.lookup.tell(request{Released: &released{shardID: id, From: p.lookup.members.self, To: s.to}})
	p.finish()
}

func (p *placer) drain(ctx actor.Context) {
	p.ending = true
	for id, s := range p.shards {
		switch s.phase {
		case claiming:
			p.abort(ctx, s, "")
		case held:
			p.release(ctx, id, s, "")
		case unowned, releasing:
		}
	}
	p.finish()
}

// finish tells everybody once nothing is left to hand over.
func (p *placer) finish() {
	if !p.ending || p.ended {
		return
	}
	for _, s := range p.shards {
		if s.phase != unowned {
			return
		}
	}
	p.ended = true
	me := p.lookup.members.leave()
	me.Done = true
	p.lookup.tell(request{Left: &me})
	close(p.lookup.drained)
}

func (p *placer) status() *status {
	_, version := p.lookup.target(shardID{})
	out := &status{Version: version, Shards: map[string]map[int]int{}, Busy: map[string][]int{}}
	for id, s := range p.shards {
		if s.phase == held || s.phase == releasing {
			if out.Shards[id.Kind] == nil {
				out.Shards[id.Kind] = map[int]int{}
			}
			out.Shards[id.Kind][id.Shard] = len(s.grains)
		}
		if s.phase == releasing || s.phase == claiming && s.claim.move {
			out.Busy[id.Kind] = append(out.Busy[id.Kind], id.Shard)
		}
	}
	return out
}
