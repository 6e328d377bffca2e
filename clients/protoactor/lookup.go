// SPDX-License-Identifier: Apache-2.0

package protoactor

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"github.com/asynkron/protoactor-go/eventstream"

	"github.com/knative-cdevents/knative-cdevents/clients/placement"
)

// Settings of a Lookup. Only Shards is required in a pod of a Knative Service.
type Settings = placement.Settings

// Lookup places grains by the shard plan of a Knative Service. Pass it to cluster.Configure.
type Lookup struct {
	settings Settings
	poller   *placement.Poller
	cluster  *cluster.Cluster
	// group is nil before Setup. At a client, it holds nothing.
	group *placement.Group

	subscription *eventstream.Subscription
	placer       *actor.PID
	ending       sync.Once
	// started: Setup has returned.
	started atomic.Bool

	mu sync.Mutex
	// holders are the members that were last known to hold each shard.
	holders map[placement.ShardID]string
	// handed are the grains that callers here got, by shard and identity. The caller's cache has no list of them.
	handed map[placement.ShardID]map[string]*actor.PID
}

var _ cluster.IdentityLookup = (*Lookup)(nil)

// New returns a Lookup. The error says which settings are wrong, and what would be right. The environment variable
// K_SERVICE and the files of the pod complete the settings.
func New(s Settings) (*Lookup, error) {
	s, err := s.Complete(os.Getenv, placement.OwnNamespace)
	if err != nil {
		return nil, err //nolint:wrapcheck // complete
	}
	l := &Lookup{
		settings: s, holders: map[placement.ShardID]string{}, handed: map[placement.ShardID]map[string]*actor.PID{},
	}
	if l.poller, err = placement.NewPoller(s, nil); err != nil {
		return nil, err //nolint:wrapcheck // complete
	}
	return l, nil
}

func (l *Lookup) system() *actor.ActorSystem { return l.cluster.ActorSystem }
func (l *Lookup) log() *slog.Logger          { return l.cluster.Logger() }

// Setup implements cluster.IdentityLookup. The cluster calls it when it starts.
func (l *Lookup) Setup(c *cluster.Cluster, _ []string, isClient bool) {
	l.cluster = c
	p := &placer{lookup: l, grains: map[string]*grain{}, byShard: map[placement.ShardID]map[string]*grain{}}
	members := placement.NewMembers(c.ActorSystem.Address(), l.settings.Lease)
	l.group = placement.NewGroup(l.settings, members, l.poller, p, c.Logger())
	if !isClient {
		var err error
		l.placer, err = c.ActorSystem.Root.SpawnNamed(actor.PropsFromProducer(func() actor.Actor { return p }), actorName)
		if err != nil {
			panic("placement: starting the placement actor: " + err.Error()) // the name is taken: the cluster was started twice
		}
	}
	l.subscription = c.ActorSystem.EventStream.Subscribe(func(event any) {
		t, is := event.(*cluster.ClusterTopology)
		if is && members.Update(membersOf(t), time.Now()) && !isClient {
			l.log().Warn("placement: this member is not part of the cluster any more; its grains stop, and it activates no others")
			go l.leaveWithin(l.settings.Lease)
		}
	})
	go l.poller.Run(l.group.Running(), c.Logger())
	if !isClient {
		go l.group.Run()
	}
	l.started.Store(true)
}

func membersOf(t *cluster.ClusterTopology) []placement.Member {
	out := make([]placement.Member, 0, len(t.GetMembers()))
	for _, m := range t.GetMembers() {
		out = append(out, placement.Member{ID: m.GetId(), Address: m.Address(), Kinds: m.GetKinds()})
	}
	return out
}

// Handler serves what the controller asks each member for, read-only: GET /cluster/members and GET
// /cluster/shards/{kind}. GET /placement says which plan this member has. Serve it at the port that the annotation
// stateful.knative-cdevents.dev/management-port names. Before the cluster has started, it answers 503.
func (l *Lookup) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !l.started.Load() {
			http.Error(w, `{"error":"the cluster has not started"}`, http.StatusServiceUnavailable)
			return
		}
		l.group.Handler().ServeHTTP(w, r)
	})
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func left(ctx context.Context) time.Duration {
	until, _ := ctx.Deadline()
	return max(time.Until(until), time.Millisecond)
}

// askWithin is how long a call waits for one member, before it looks again which member to ask.
const askWithin = time.Second

// Get implements cluster.IdentityLookup: it returns the grain of an identity, or nil if it has no owner within
// Settings.Patience.
func (l *Lookup) Get(id *cluster.ClusterIdentity) *actor.PID {
	s := placement.ShardID{Kind: id.GetKind(), Shard: l.settings.ShardOf(id.GetIdentity(), l.settings.Shards)}
	address, version := l.holder(s), int64(0)
	deadline := time.Now().Add(max(l.settings.Patience, time.Millisecond))
	const longest = 50 * time.Millisecond
	running := l.group.Running()
	for pause := time.Millisecond; time.Now().Before(deadline) && running.Err() == nil; pause = min(2*pause, longest) {
		if address == "" {
			address, version = l.group.Target(s)
		}
		if address == "" {
			sleep(l.group.Running(), pause)
			continue
		}
		got, err := l.ask(address, placement.Activate{ShardID: s, Identity: id.GetIdentity(), Version: version}, deadline)
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
		sleep(l.group.Running(), pause)
	}
	return nil
}

func (l *Lookup) ask(address string, a placement.Activate, deadline time.Time) (placement.Reply, error) {
	ctx, cancel := context.WithTimeout(l.group.Running(), min(time.Until(deadline), askWithin))
	defer cancel()
	return call(ctx, l.system(), address, placement.Request{Activate: &a})
}

// holder returns the member that was last known to hold a shard.
func (l *Lookup) holder(s placement.ShardID) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.holders[s]; h != "" && l.group.Members.Has(h) {
		return h
	}
	return ""
}

func (l *Lookup) remember(s placement.ShardID, address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if address == "" {
		delete(l.holders, s)
		return
	}
	l.holders[s] = address
}

// hand remembers what a caller got.
func (l *Lookup) hand(s placement.ShardID, identity string, pid *actor.PID) *actor.PID {
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
	number := l.settings.ShardOf(id.GetIdentity(), l.settings.Shards)
	l.forget(placement.ShardID{Kind: id.GetKind(), Shard: number}, id.GetIdentity(), pid)
}

func (l *Lookup) forget(s placement.ShardID, identity string, pid *actor.PID) {
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
func (l *Lookup) dropped(r placement.Released) {
	l.mu.Lock()
	if l.holders[r.ShardID] == r.From {
		delete(l.holders, r.ShardID)
		if r.To != "" {
			l.holders[r.ShardID] = r.To
		}
	}
	stale := maps.Clone(l.handed[r.ShardID])
	maps.DeleteFunc(stale, func(_ string, pid *actor.PID) bool { return pid.GetAddress() != r.From })
	for identity := range stale {
		delete(l.handed[r.ShardID], identity)
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

// Leave hands the shards of this member over, and activates nothing any more. Call it before Shutdown of the cluster,
// so that the others do not wait for this member. The error says that grains are still active; they go on stopping.
func (l *Lookup) Leave(ctx context.Context) error {
	if l.placer == nil {
		return nil
	}
	return l.group.Leave(ctx) //nolint:wrapcheck // the context's cause
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
		l.group.Close()
		l.system().EventStream.Unsubscribe(l.subscription)
		if l.placer != nil {
			l.system().Root.Stop(l.placer)
		}
	})
}

// Moves returns how many shards other members have handed over to this one, by the plan or to be placed evenly.
func (l *Lookup) Moves() int64 {
	if l.group == nil {
		return 0
	}
	return l.group.Moves()
}

// Version returns the version of the newest plan, in milliseconds since 1970; 0 before the first one.
func (l *Lookup) Version() int64 { return l.poller.Known().Version() }

// Age returns the time since the controller last confirmed the plan, and false before it ever did.
func (l *Lookup) Age() (time.Duration, bool) {
	at := l.poller.Known().Confirmed()
	return time.Since(at), !at.IsZero()
}
