// SPDX-License-Identifier: Apache-2.0

package protoactor

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"github.com/asynkron/protoactor-go/eventstream"
)

// Lookup places grains by the shard plan of a Knative Service. Pass it to cluster.Configure.
type Lookup struct {
	settings Settings
	poller   *poller
	cluster  *cluster.Cluster
	members  *members

	running      context.Context //nolint:containedctx // from Setup to Shutdown
	stop         context.CancelFunc
	subscription *eventstream.Subscription
	placer       *actor.PID
	leaving      sync.Once
	ending       sync.Once
	// started: Setup has returned.
	started atomic.Bool
	// moves are the shards that other members handed over to this one.
	moves atomic.Int64
	// drained is closed when this member has left, and its grains have stopped.
	drained chan struct{}

	mu sync.Mutex
	// placed are the results of targets, by kind.
	placed map[string]placed
	// holders are the members that were last known to hold each shard.
	holders map[shardID]string
	// handed are the grains that callers here got, by shard and identity. The caller's cache has no list of them.
	handed map[shardID]map[string]*actor.PID
	// silent are the members that did not answer the leading member.
	silent map[string]bool
}

// placed is where the shards of a kind belong, by a plan and members.
type placed struct {
	plan    *plan
	changes int
	targets []string
}

var _ cluster.IdentityLookup = (*Lookup)(nil)

// New returns a Lookup. The error says which settings are wrong, and what would be right. The environment variable
// K_SERVICE and the files of the pod complete the settings.
func New(s Settings) (*Lookup, error) {
	s, err := s.complete(os.Getenv, ownNamespace)
	if err != nil {
		return nil, err
	}
	l := &Lookup{
		settings: s, drained: make(chan struct{}), placed: map[string]placed{}, holders: map[shardID]string{},
		handed: map[shardID]map[string]*actor.PID{}, silent: map[string]bool{},
	}
	l.running, l.stop = context.WithCancel(context.Background())
	l.poller = &poller{settings: s, known: known{settled: s.Disabled}}
	if !s.Disabled {
		if l.poller.source, err = newSource(s); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *Lookup) system() *actor.ActorSystem { return l.cluster.ActorSystem }
func (l *Lookup) log() *slog.Logger          { return l.cluster.Logger() }

// Setup implements cluster.IdentityLookup. The cluster calls it when it starts.
func (l *Lookup) Setup(c *cluster.Cluster, _ []string, isClient bool) {
	l.cluster = c
	l.members = newMembers(c.ActorSystem.Address(), l.settings.Lease)
	l.poller.log = c.Logger()
	if !isClient {
		var err error
		l.placer, err = c.ActorSystem.Root.SpawnNamed(actor.PropsFromProducer(func() actor.Actor {
			return &placer{lookup: l, shards: map[shardID]*shard{}, grains: map[string]*grain{}}
		}), actorName)
		if err != nil {
			panic("placement: starting the placement actor: " + err.Error()) // the name is taken: the cluster was started twice
		}
	}
	l.subscription = c.ActorSystem.EventStream.Subscribe(func(event any) {
		t, is := event.(*cluster.ClusterTopology)
		if is && l.members.update(t, time.Now()) && !isClient {
			l.log().Warn("placement: this member is not part of the cluster any more; its grains stop, and it activates no others")
			go l.leaveWithin(l.settings.Lease)
		}
	})
	if l.poller.source != nil {
		go l.poller.run(l.running)
	}
	if !isClient {
		go l.lead(l.running)
	}
	l.started.Store(true)
}

// askWithin is how long a call waits for one member, before it looks again which member to ask.
const askWithin = time.Second

// Get implements cluster.IdentityLookup: it returns the grain of an identity, or nil if it has no owner within
// Settings.Patience.
func (l *Lookup) Get(id *cluster.ClusterIdentity) *actor.PID {
	s := shardID{id.GetKind(), l.settings.ShardOf(id.GetIdentity(), l.settings.Shards)}
	address, version := l.holder(s), int64(0)
	deadline := time.Now().Add(max(l.settings.Patience, time.Millisecond))
	const longest = 50 * time.Millisecond
	for pause := time.Millisecond; time.Now().Before(deadline) && l.running.Err() == nil; pause = min(2*pause, longest) {
		if address == "" {
			address, version = l.target(s)
		}
		if address == "" {
			sleep(l.running, pause)
			continue
		}
		got, err := call(l.system(), address, request{Activate: &activate{s, id.GetIdentity(), version}},
			min(time.Until(deadline), askWithin))
		switch {
		case err != nil:
			l.log().Debug("placement: no grain", "identity", id.AsKey(), "error", err)
			address = ""
		case got.PID != "":
			return l.hand(s, id.GetIdentity(), actor.NewPID(address, got.PID))
		default:
			address, version = got.Holder, max(version, got.Version)
		}
		l.remember(s, address)
		sleep(l.running, pause)
	}
	return nil
}

// holder returns the member that was last known to hold a shard.
func (l *Lookup) holder(s shardID) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.holders[s]; h != "" && l.members.has(h) {
		return h
	}
	return ""
}

func (l *Lookup) remember(s shardID, address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if address == "" {
		delete(l.holders, s)
		return
	}
	l.holders[s] = address
}

// hand remembers what a caller got.
func (l *Lookup) hand(s shardID, identity string, pid *actor.PID) *actor.PID {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holders[s] = pid.GetAddress()
	if l.handed[s] == nil {
		l.handed[s] = map[string]*actor.PID{}
	}
	l.handed[s][identity] = pid
	return pid
}

// RemovePid implements cluster.IdentityLookup: callers here ask for the grain anew.
func (l *Lookup) RemovePid(id *cluster.ClusterIdentity, pid *actor.PID) {
	l.forget(shardID{id.GetKind(), l.settings.ShardOf(id.GetIdentity(), l.settings.Shards)}, id.GetIdentity(), pid)
}

func (l *Lookup) forget(s shardID, identity string, pid *actor.PID) {
	l.cluster.PidCache.RemoveByValue(identity, s.Kind, pid)
	l.mu.Lock()
	defer l.mu.Unlock()
	if had := l.handed[s][identity]; had != nil && had.Equal(pid) {
		delete(l.handed[s], identity)
	}
}

// afterwards is when the caches are cleared once more: a call that got the grain before may store it only then.
const afterwards = time.Second

// dropped clears the caches of a shard that a member does not hold any more.
func (l *Lookup) dropped(r released) {
	l.mu.Lock()
	if l.holders[r.shardID] == r.From {
		delete(l.holders, r.shardID)
		if r.To != "" {
			l.holders[r.shardID] = r.To
		}
	}
	stale := maps.Clone(l.handed[r.shardID])
	maps.DeleteFunc(stale, func(_ string, pid *actor.PID) bool { return pid.GetAddress() != r.From })
	for identity := range stale {
		delete(l.handed[r.shardID], identity)
	}
	l.mu.Unlock()
	drop := func() {
		for identity, pid := range stale {
			l.cluster.PidCache.RemoveByValue(identity, r.Kind, pid)
		}
	}
	drop()
	if len(stale) > 0 {
		time.AfterFunc(afterwards, drop)
	}
}

// target returns the member where a shard belongs, and the version of the plan that says so. Empty: no member can have
// it.
func (l *Lookup) target(s shardID) (address string, version int64) {
	k := l.poller.now()
	if s.Kind == "" {
		return "", k.version
	}
	all := l.targets(s.Kind, k)
	if s.Shard < 0 || s.Shard >= len(all) {
		return "", k.version
	}
	return all[s.Shard], k.version
}

// targets returns the member where each shard of a kind belongs.
func (l *Lookup) targets(kind string, k known) []string {
	addresses, changes := l.members.able(kind)
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.placed[kind]
	if p.targets == nil || p.plan != k.follow() || p.changes != changes {
		p = placed{k.follow(), changes, targets(k.follow(), kind, l.settings.Shards, addresses)}
		l.placed[kind] = p
	}
	return p.targets
}

// tell sends a message to the placement actors of all members, this one's too, without an answer.
func (l *Lookup) tell(r request) {
	others, _ := l.members.others()
	for _, address := range append(others, l.members.self) {
		l.system().Root.Send(actor.NewPID(address, actorName), encode(r))
	}
}

// Leave hands the shards of this member over, and activates nothing any more. Call it before Shutdown of the cluster,
// so that the others do not wait for this member. The error says that grains are still active; they go on stopping.
func (l *Lookup) Leave(ctx context.Context) error {
	if l.placer == nil {
		return nil
	}
	l.leaving.Do(func() {
		me := l.members.leave()
		l.tell(request{Left: &me})
		l.system().Root.Send(l.placer, &drain{})
	})
	select {
	case <-l.drained:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *Lookup) leaveWithin(limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := l.Leave(ctx); err != nil {
		l.log().Warn("placement: grains are still active after "+limit.String(), "error", err)
	}
}

// Shutdown implements cluster.IdentityLookup: it leaves, and waits at most as long as the lease for grains to stop.
func (l *Lookup) Shutdown() {
	l.ending.Do(func() {
		l.leaveWithin(l.settings.Lease)
		l.stop()
		l.system().EventStream.Unsubscribe(l.subscription)
		if l.placer != nil {
			l.system().Root.Stop(l.placer)
		}
	})
}

// Moves returns how many shards other members have handed over to this one, by the plan or to be placed evenly.
func (l *Lookup) Moves() int64 { return l.moves.Load() }

// Version returns the version of the newest plan, in milliseconds since 1970; 0 before the first one.
func (l *Lookup) Version() int64 { return l.poller.now().version }

// Age returns the time since the controller last confirmed the plan, and false before it ever did.
func (l *Lookup) Age() (time.Duration, bool) {
	at := l.poller.now().confirmed
	return time.Since(at), !at.IsZero()
}
