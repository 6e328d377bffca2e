// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Runtime is what a Group is for: the application's entities at this member.
type Runtime interface {
	// Has reports whether this member may hold shards of a kind.
	Has(kind string) bool
	// Active returns how many entities of a shard are active. It runs in the serial order of the group.
	Active(id ShardID) int
	// Stop lets no further request into a shard, and stops what is active there. When the last one has stopped, call
	// Group.Stopped. It runs in the serial order of the group, and is not called if nothing is active.
	Stop(id ShardID)
	// Dropped says that a member does not hold a shard any more, so that caches forget it.
	Dropped(r Released)
	// Call sends a request to a member, which may be this one, and returns its reply. It adds a Reply's Error.
	Call(ctx context.Context, address string, r Request) (Reply, error)
	// Tell sends a request without an answer.
	Tell(address string, r Request)
	// Serial runs a function after all that it ran before, one at a time, and never within one of them.
	Serial(f func())
}

// Group is one member's part in the placement of shards. Handle, Enter and Stopped must run in the serial order of its
// runtime; other methods may run at any time.
type Group struct {
	Members *Members
	Poller  *Poller

	settings Settings
	runtime  Runtime
	log      *slog.Logger

	running context.Context //nolint:containedctx // from New to Close
	stop    context.CancelFunc
	leaving sync.Once
	moves   atomic.Int64
	// drained is closed when this member has left, and all its entities have stopped.
	drained chan struct{}
	// done is written before: nothing of a process before this one can be active either.
	done bool
	// told is closed when the controller knows that this member has left, or does not answer.
	told    chan struct{}
	telling sync.Once

	// shards, ending and ended are read and written in the serial order.
	shards map[ShardID]*shard
	// ending: this member leaves, or was expelled. ended: it holds nothing any more.
	ending, ended bool

	mu sync.Mutex
	// placed are the results of targets, by kind.
	placed map[string]placed
	// silent are the members that did not answer the leading member.
	silent map[string]bool
}

// placed is where the shards of a kind belong, by a plan and members.
type placed struct {
	plan    *Plan
	changes int
	targets []string
}

// NewGroup returns a group for complete settings. Call Run to start it.
func NewGroup(s Settings, m *Members, p *Poller, r Runtime, log *slog.Logger) *Group {
	g := &Group{
		Members: m, Poller: p, settings: s, runtime: r, log: log, drained: make(chan struct{}), told: make(chan struct{}),
		shards: map[ShardID]*shard{}, placed: map[string]placed{}, silent: map[string]bool{},
	}
	g.running, g.stop = context.WithCancel(context.Background())
	return g
}

// Run moves shards, whenever this member is the one that leads, until Close.
func (g *Group) Run() { g.lead(g.running) }

// Close ends claims and Run.
func (g *Group) Close() { g.stop() }

// Kill ends the group as if the process had ended, without a farewell. It is for tests of what the others do.
func (g *Group) Kill() {
	g.leaving.Do(func() {})
	g.stop()
}

// Running ends with Close.
func (g *Group) Running() context.Context { return g.running }

// Target returns the member where a shard belongs, and the version of the plan that says so. Empty: no member can have
// it.
func (g *Group) Target(s ShardID) (address string, version int64) {
	k := g.Poller.Known()
	if s.Kind == "" {
		return "", k.version
	}
	all := g.targets(s.Kind, k)
	if s.Shard < 0 || s.Shard >= len(all) {
		return "", k.version
	}
	return all[s.Shard], k.version
}

// targets returns the member where each shard of a kind belongs.
func (g *Group) targets(kind string, k Known) []string {
	addresses, changes := g.Members.able(kind)
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.placed[kind]
	if p.targets == nil || p.plan != k.Follow() || p.changes != changes {
		p = placed{k.Follow(), changes, targets(k.Follow(), kind, g.settings.Shards, addresses)}
		g.placed[kind] = p
	}
	return p.targets
}

// tell sends a message to all members, this one too.
func (g *Group) tell(r Request) {
	others, _ := g.Members.Others()
	for _, address := range append(others, g.Members.self) {
		g.runtime.Tell(address, r)
	}
}

// call asks a member, and waits no longer than callWithin.
func (g *Group) call(ctx context.Context, address string, r Request) (Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	return g.runtime.Call(ctx, address, r) //nolint:wrapcheck // it names the member
}

// Leave hands the shards of this member over, and lets it hold nothing any more. The error says that entities are still
// active; they go on stopping.
func (g *Group) Leave(ctx context.Context) error {
	g.leaving.Do(func() {
		me := g.Members.leave()
		g.tell(Request{Left: &me})
		g.runtime.Serial(g.drain)
	})
	select {
	case <-g.drained:
		g.telling.Do(func() { //nolint:contextcheck // who calls Leave may give up, and the controller is told all the same
			go func() {
				defer close(g.told)
				g.tellController()
			}()
		})
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-g.running.Done():
		return context.Cause(g.running) //nolint:contextcheck // it says why the group has ended
	}
	select {
	case <-g.told:
	case <-ctx.Done():
	case <-g.running.Done():
	}
	return nil
}

// leftWithin limits how long a member that has left waits for the controller.
const leftWithin = 5 * time.Second

// tellController says that this member has left, for those that come when no other member is there.
func (g *Group) tellController() {
	ctx, cancel := context.WithTimeout(g.running, leftWithin)
	defer cancel()
	if !g.done {
		return
	}
	if err := g.Poller.left(ctx); err != nil {
		g.log.Warn("placement: the controller does not know that this member has left; members that come when no other one is there "+
			"wait for it", "error", err)
	}
}

// Moves returns how many shards other members have handed over to this one, by the plan or to be placed evenly.
func (g *Group) Moves() int64 { return g.moves.Load() }

// Silent reports whether a member did not answer this one, which leads.
func (g *Group) Silent() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]string, 0, len(g.silent))
	for a := range g.silent {
		out = append(out, a)
	}
	return out
}

// Report is what a member says of the plan that it has.
type Report struct {
	Version   int64 `json:"version"`
	Following bool  `json:"following"`
	Moves     int64 `json:"moves"`
	// MovesHeld says why no shard moves by choice; empty: they may.
	MovesHeld string `json:"movesHeld"`
	// AgeSeconds is the time since the controller confirmed the plan; absent before it ever did.
	AgeSeconds *float64 `json:"ageSeconds,omitempty"`
}

// Report returns what this member knows of the plan.
func (g *Group) Report() Report {
	k := g.Poller.Known()
	out := Report{
		Version: k.version, Following: k.Follow() != nil, Moves: g.Moves(),
		MovesHeld: k.obstacle(time.Now(), g.settings.StaleAfter),
	}
	if !k.confirmed.IsZero() {
		age := time.Since(k.confirmed).Seconds()
		out.AgeSeconds = &age
	}
	return out
}
