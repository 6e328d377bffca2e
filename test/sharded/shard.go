// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// entityType is the entity type in the metrics, and the kind of the actors.
const entityType = "Cart"

// ask is the message from the entry to a shard. Messages are JSON text: protobuf messages would need a compiler, and
// speed does not matter here.
type ask struct {
	Request string   `json:"request"`
	Cart    string   `json:"cart"`
	Shard   int      `json:"shard"`
	Entered identity `json:"entered"`
}

// Outcomes of a request.
const (
	ok       = "ok"
	failed   = "error"
	timedOut = "timeout"
)

// answer is the response to a client. Handled is nil if no answer came in time.
type answer struct {
	ask
	Outcome string    `json:"outcome"`
	Handled *identity `json:"handled,omitempty"`
	// Items counts the requests for the cart on its current member; a shard that moves forgets it.
	Items int `json:"items"`
}

// shard is the virtual actor: one in the whole cluster, on the member that the placement chose. It moves with all its
// carts when members join or leave.
type shard struct {
	conf   config
	counts *counts
	locks  *locks
	carts  map[string]int
	// now is the clock, which a test may stop.
	now func() time.Time
}

func newShard(conf config, counts *counts, locks *locks) actor.Actor {
	return &shard{conf: conf, counts: counts, locks: locks, carts: map[string]int{}, now: time.Now}
}

// Receive handles one message at a time.
func (s *shard) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		s.counts.shards.Inc()
		s.note(ctx, s.locks.take)
	case *actor.Stopped:
		s.note(ctx, s.locks.give)
		s.counts.shards.Dec()
	case *wrapperspb.StringValue:
		if err := s.handle(ctx, m.GetValue()); err != nil {
			ctx.Logger().Error("unexpected message", "error", err)
		}
	}
}

// note tells the locks what happens to this shard. The process ends if it cannot: a test of locks would see nothing of
// this shard.
func (s *shard) note(ctx actor.Context, say func(entity string) error) {
	if s.locks == nil {
		return
	}
	if err := say("shard-" + cluster.GetClusterIdentity(ctx).GetIdentity()); err != nil {
		ctx.Logger().Error("ending without locks", "error", err)
		os.Exit(1)
	}
}

func (s *shard) handle(ctx actor.Context, text string) error {
	began := s.now()
	a := answer{Outcome: ok, Handled: &s.conf.Self}
	if err := json.Unmarshal([]byte(text), &a.ask); err != nil {
		return fmt.Errorf("reading a request: %w", err)
	}
	s.counts.start()
	s.carts[a.Cart]++
	a.Items = s.carts[a.Cart]

	fate := s.conf.Fates.of(a.Request)
	if fate.fails {
		a.Outcome = failed
	}
	sender, root := ctx.Sender(), ctx.ActorSystem().Root
	finish := func() {
		took := s.now().Sub(began)
		if took > s.conf.Patience {
			a.Outcome = timedOut
		}
		s.counts.finish(a, took)
		data, err := json.Marshal(a)
		if err != nil {
			panic(err) // strings and numbers always encode
		}
		root.Send(sender, wrapperspb.String(string(data)))
	}
	switch {
	case fate.hangs: // Started, and never finished.
	case fate.slow:
		// No sleep here: the other carts of the shard must not wait.
		time.AfterFunc(s.conf.Fates.SlowFor, finish)
	default:
		finish()
	}
	return nil
}
