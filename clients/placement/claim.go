// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"slices"
	"time"
)

const (
	// claimWithin is how long a claim may take. After that, the next call for the shard starts another one.
	claimWithin = 30 * time.Second
	// callWithin is how long a member may take to answer; it is asked again.
	callWithin = 2 * time.Second
	// askAgain is the pause before.
	askAgain = 200 * time.Millisecond
)

// claimed is a claim of this member, and its result. The goroutine that asks the others has it first, and then the
// placer.
//
// Two members can never hold a shard. Each asks the other one, and a member that agrees to another one's claim gives up
// its own. For both to hold it, each must have agreed before its own claim began, and so before the other one's began.
type claimed struct {
	id      ShardID
	version int64
	// move asks the holder to hand the shard over, after all others have agreed.
	move   bool
	holder string
	ctx    context.Context //nolint:containedctx // it ends when another claim wins
	cancel context.CancelFunc

	granted bool
	// epoch is higher than all that the others know.
	epoch int64
	// heldBy is the member to ask instead, by a plan of this version. Empty: not known.
	heldBy      string
	heldVersion int64
}

// beats decides between claims of two members: a move wins, then the newer plan, then the lower address.
func (c Claim) beats(mine *claimed, self string) bool {
	switch {
	case c.Move != mine.move:
		return c.Move
	case c.Version != mine.version:
		return c.Version > mine.version
	}
	return c.From < self
}

// ask gets the agreement of every other member.
func (g *Group) ask(c *claimed) {
	agreed, ready := map[string]bool{}, time.Now()
	var problem error
	for c.ctx.Err() == nil {
		others, joined := g.Members.Others()
		if !joined {
			return
		}
		open := slices.DeleteFunc(others, func(a string) bool { return agreed[a] })
		if len(open) == 0 {
			ready = later(ready, g.Members.away(time.Now()))
			if wait := time.Until(ready); wait > 0 {
				sleep(c.ctx, wait)
				continue
			}
			c.granted = true
			return
		}
		// The holder keeps its grains until all others have agreed.
		rest := slices.DeleteFunc(slices.Clone(open), func(a string) bool { return c.move && a == c.holder })
		if len(rest) > 0 {
			open = rest
		}
		answers := g.askAll(c, open)
		again := false
		for a, got := range answers {
			switch {
			case got.err != nil:
				problem, again = got.err, true
			case !got.Granted:
				c.heldBy, c.heldVersion = got.Holder, got.Version
				return
			default:
				agreed[a] = true
				c.epoch = max(c.epoch, got.Epoch+1)
				ready = later(ready, got.After)
			}
		}
		if again {
			sleep(c.ctx, askAgain)
		}
	}
	if problem != nil && c.ctx.Err() == context.DeadlineExceeded {
		g.log.Warn("placement: a shard has no owner, because a member does not answer: it must use the same library, or "+
			"leave the cluster",
			"shard", c.id.String(), "error", problem)
	}
}

type answered struct {
	Reply
	err error
}

func (g *Group) askAll(c *claimed, addresses []string) map[string]answered {
	type one struct {
		address string
		answered
	}
	answers := make(chan one, len(addresses))
	r := Request{Claim: &Claim{ShardID: c.id, From: g.Members.self, Version: c.version, Move: c.move}}
	for _, a := range addresses {
		go func() {
			got, err := g.call(c.ctx, a, r)
			answers <- one{a, answered{got, err}}
		}()
	}
	out := map[string]answered{}
	for range addresses {
		got := <-answers
		out[got.address] = got.answered
	}
	return out
}

// later returns the later of a time and one after a duration.
func later(t time.Time, after time.Duration) time.Time {
	if then := time.Now().Add(after); then.After(t) && after > 0 {
		return then
	}
	return t
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
