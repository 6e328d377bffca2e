package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// entityType is the name that the shards' contents have in the metrics, and the actors' kind.
const entityType = "Cart"

// ask is what travels from where a request entered to its shard. Both travel as text: a protobuf message of our own
// would need a compiler for it, and nothing here is in a hurry.
type ask struct {
	Request string   `json:"request"`
	Cart    string   `json:"cart"`
	Shard   int      `json:"shard"`
	Entered identity `json:"entered"`
}

// outcomes of a request.
const (
	ok       = "ok"
	failed   = "error"
	timedOut = "timeout"
)

// answer is what a client is told. Handled is nil when nobody told in time.
type answer struct {
	ask
	Outcome string    `json:"outcome"`
	Handled *identity `json:"handled,omitempty"`
	// Items is how often the cart was asked for where it lives now; a shard that moves forgets.
	Items int `json:"items"`
}

// shard is the virtual actor: one in the whole cluster, wherever the placement has put it. It is what moves when
// members come and go, with all its carts.
type shard struct {
	conf   config
	counts *counts
	carts  map[string]int
	// now is the time, which a test may stop.
	now func() time.Time
}

func newShard(conf config, counts *counts) actor.Actor {
	return &shard{conf: conf, counts: counts, carts: map[string]int{}, now: time.Now}
}

// Receive handles one message; the actor has no other at that time.
func (s *shard) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		s.counts.shards.Inc()
	case *actor.Stopped:
		s.counts.shards.Dec()
	case *wrapperspb.StringValue:
		if err := s.handle(ctx, m.GetValue()); err != nil {
			ctx.Logger().Error("a message that none of these programs sends", "error", err)
		}
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
			panic(err) // strings and numbers
		}
		root.Send(sender, wrapperspb.String(string(data)))
	}
	switch {
	case fate.hangs: // It was started and never ends.
	case fate.slow:
		// Not by sleeping: the other carts of the shard are not to wait.
		time.AfterFunc(s.conf.Fates.SlowFor, finish)
	default:
		finish()
	}
	return nil
}
