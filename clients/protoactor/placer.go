// SPDX-License-Identifier: Apache-2.0

package protoactor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/knative-cdevents/knative-cdevents/clients/placement"
)

// actorName is the name of the placement actor of each member.
const actorName = "knative-placement"

type grain struct {
	id       placement.ShardID
	identity string
	pid      *actor.PID
	gate     *gate
	address  *actor.PID
}

// placer is the placement actor of a member. It runs the group's steps one at a time, and has the grains.
type placer struct {
	lookup *Lookup
	// ctx is that of the message that is handled now.
	ctx actor.Context
	// grains are the active ones, by the id of their PID; byShard are the same, by identity.
	grains  map[string]*grain
	byShard map[placement.ShardID]map[string]*grain
}

// Receive implements actor.Actor.
func (p *placer) Receive(ctx actor.Context) {
	p.ctx = ctx
	switch m := ctx.Message().(type) {
	case *wrapperspb.StringValue:
		sender := ctx.Sender()
		respond := func(r placement.Reply) {
			if sender != nil {
				p.ctx.Send(sender, encode(r))
			}
		}
		var r placement.Request
		if err := json.Unmarshal([]byte(m.GetValue()), &r); err != nil {
			respond(placement.Reply{Error: "reading a request: " + err.Error()})
			return
		}
		if a := r.Activate; a != nil {
			p.lookup.group.Enter(a.ShardID, a.Version, func(got placement.Reply) {
				if got.Granted {
					got = placement.Reply{PID: p.grain(a.ShardID, a.Identity).address.GetId()}
				}
				respond(got)
			})
			return
		}
		p.lookup.group.Handle(r, respond)
	case func():
		m()
	case *actor.Terminated:
		p.terminated(m.Who)
	}
}

// grain returns the grain of an identity, and activates it first if need be. The member must hold the shard.
func (p *placer) grain(id placement.ShardID, identity string) *grain {
	if g := p.byShard[id][identity]; g != nil {
		return g
	}
	kind, _ := p.lookup.cluster.TryGetClusterKind(id.Kind)
	props := cluster.WithClusterIdentity(kind.Props, cluster.NewClusterIdentity(identity, id.Kind))
	g := &grain{id: id, identity: identity, pid: p.ctx.SpawnPrefix(props, id.Kind+"/"+identity)}
	kind.Inc()
	g.gate, g.address = openGate(p.ctx.ActorSystem(), g.pid)
	if p.byShard[id] == nil {
		p.byShard[id] = map[string]*grain{}
	}
	p.byShard[id][identity], p.grains[g.pid.GetId()] = g, g
	return g
}

// terminated forgets a grain that has stopped.
func (p *placer) terminated(who *actor.PID) {
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
	if p.byShard[g.id][g.identity] == g {
		delete(p.byShard[g.id], g.identity)
	}
	if len(p.byShard[g.id]) == 0 {
		delete(p.byShard, g.id)
		p.lookup.group.Stopped(g.id)
	}
}

// Has implements placement.Runtime.
func (p *placer) Has(kind string) bool {
	_, known := p.lookup.cluster.TryGetClusterKind(kind)
	return known
}

// Active implements placement.Runtime.
func (p *placer) Active(id placement.ShardID) int { return len(p.byShard[id]) }

// Stop implements placement.Runtime: the grains stop after the messages that they already have.
func (p *placer) Stop(id placement.ShardID) {
	for _, g := range p.byShard[id] {
		g.gate.close(g.address)
		p.ctx.Poison(g.pid)
	}
}

// Dropped implements placement.Runtime.
func (p *placer) Dropped(r placement.Released) { p.lookup.dropped(r) }

// Serial implements placement.Runtime.
func (p *placer) Serial(f func()) { p.lookup.system().Root.Send(p.lookup.placer, f) }

// Tell implements placement.Runtime.
func (p *placer) Tell(address string, r placement.Request) {
	p.lookup.system().Root.Send(actor.NewPID(address, actorName), encode(r))
}

// Call implements placement.Runtime.
func (p *placer) Call(ctx context.Context, address string, r placement.Request) (placement.Reply, error) {
	return call(ctx, p.lookup.system(), address, r)
}

// encode makes a message of a request or a reply, as JSON in a StringValue: there are few of them.
func encode(v any) *wrapperspb.StringValue {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	return wrapperspb.String(string(data))
}

// call sends a request to the placement actor at an address, and waits for the reply as long as the context does, which
// must have a deadline.
func call(ctx context.Context, system *actor.ActorSystem, address string, r placement.Request) (
	placement.Reply, error,
) {
	var out placement.Reply
	future := system.Root.RequestFuture(actor.NewPID(address, actorName), encode(r), left(ctx))
	got, err := future.Result()
	if err != nil {
		return out, fmt.Errorf("asking member %s: %w", address, err)
	}
	text, ok := got.(*wrapperspb.StringValue)
	if !ok {
		return out, fmt.Errorf("asking member %s: the answer is a %T, not a string: is it the same library?", address, got)
	}
	if err := json.Unmarshal([]byte(text.GetValue()), &out); err != nil {
		return out, fmt.Errorf("asking member %s: reading the answer: %w", address, err)
	}
	if out.Error != "" {
		return out, fmt.Errorf("member %s: %w", address, errors.New(out.Error))
	}
	return out, nil
}
