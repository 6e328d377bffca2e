// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"github.com/asynkron/protoactor-go/cluster/identitylookup/disthash"
	"github.com/asynkron/protoactor-go/remote"
	"github.com/knative-cdevents/knative-cdevents/clients/protoactor"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	// missingAtMost is how long a member may be absent from its own list before the process exits.
	missingAtMost = 15 * time.Second
	// joiningAtMost is the same for a new member: its pod must be seen as Ready first.
	joiningAtMost = time.Minute
	// handOver is how long the shards may take to stop before this member leaves.
	handOver = 5 * time.Second
	// farewell is how long the others may take to notice that a member has left.
	farewell = time.Second
)

// view is the member list as one member sees it.
type view struct {
	Self    string   `json:"self"`
	Members []string `json:"members"`
}

// member is this process as a member of the cluster.
type member struct {
	conf    config
	counts  *counts
	cluster *cluster.Cluster
	// placement is nil if protoactor-go places the shards.
	placement *protoactor.Lookup
	running   atomic.Bool

	mu   sync.Mutex
	last view
	// since is when this member last entered or left its own list.
	since time.Time
}

// newMember creates a member that listens for the others at host and port.
func newMember(ctx context.Context, conf config, counts *counts, provider cluster.ClusterProvider, host string, port int) (*member, error) {
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}))
	var held *locks
	if conf.Locks != "" {
		var err error
		if held, err = dialLocks(ctx, conf.Locks, conf.Self.Pod); err != nil {
			return nil, err
		}
	}
	kind := cluster.NewKind(entityType, actor.PropsFromProducer(func() actor.Actor { return newShard(conf, counts, held) }))
	m := &member{conf: conf, counts: counts, since: time.Now()}
	lookup := disthash.New()
	if conf.Placement {
		var err error
		// The identity of an actor is the number of its shard.
		m.placement, err = protoactor.New(protoactor.Settings{Shards: conf.Shards, Patience: conf.Patience, ShardOf: func(identity string, shards int) int {
			number, _ := strconv.Atoi(identity)
			return number % shards
		}})
		if err != nil {
			return nil, fmt.Errorf("preparing placement: %w", err)
		}
		lookup = m.placement
	}
	m.cluster = cluster.New(system, cluster.Configure(conf.Cluster, provider, lookup, remote.Configure(host, port),
		cluster.WithKinds(kind), cluster.WithRequestTimeout(conf.Patience)))
	system.EventStream.Subscribe(func(event any) {
		if t, isTopology := event.(*cluster.ClusterTopology); isTopology {
			m.saw(t.Members, time.Now())
		}
	})
	return m, nil
}

// start joins the cluster.
//
// Trap 1: readiness must not depend on the member list. The provider lists only pods whose containers are all
// Ready, so such a member would wait for itself. A member is ready once StartMember has returned.
func (m *member) start() {
	m.cluster.StartMember()
	m.mu.Lock()
	m.since = time.Now()
	m.mu.Unlock()
	m.running.Store(true)
}

func (m *member) started() bool { return m.running.Load() }

// leave hands the shards over if the placement can. It removes this member from the list first, and stops when the
// others no longer send requests, so that requests in flight are still answered.
func (m *member) leave(ctx context.Context) {
	if !m.running.CompareAndSwap(true, false) {
		return
	}
	if m.placement != nil {
		ctx, cancel := context.WithTimeout(ctx, handOver)
		defer cancel()
		if err := m.placement.Leave(ctx); err != nil {
			slog.Warn("handing the shards over", "error", err)
		}
	}
	if err := m.cluster.Config.ClusterProvider.Shutdown(true); err != nil {
		slog.Warn("leaving the cluster", "error", err)
	}
	time.Sleep(farewell)
	m.cluster.Shutdown(true)
}

func (m *member) saw(members []*cluster.Member, now time.Time) {
	v := view{Self: m.cluster.ActorSystem.Address(), Members: []string{}}
	for _, other := range members {
		v.Members = append(v.Members, other.Address())
	}
	slices.Sort(v.Members)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last.lists(v.Self) != v.lists(v.Self) {
		m.since = now
	}
	m.last = v
}

func (v view) lists(address string) bool { return slices.Contains(v.Members, address) }

func (m *member) view() view {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

// watch returns an error once this member has been expelled.
//
// Trap 3: a member that is not Ready for a while is expelled for good, because the others block its id. It would keep
// accepting requests and handle none. Only a new process gets a new id.
func (m *member) watch(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-time.After(time.Second):
			if err := m.expelled(now); err != nil {
				return err
			}
		}
	}
}

func (m *member) expelled(now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	limit := missingAtMost
	if m.last.Self == "" {
		limit = joiningAtMost
	}
	if away := now.Sub(m.since); !m.last.lists(m.last.Self) && away > limit {
		return fmt.Errorf("not among the members for %s: %v", away.Round(time.Second), m.last.Members)
	}
	return nil
}

// request sends to the shard, on whichever member it is. Without a response, the outcome is a time-out.
func (m *member) request(a ask) answer {
	data, err := json.Marshal(a)
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	attempts := 1
	got, err := m.cluster.Request(strconv.Itoa(a.Shard), entityType, wrapperspb.String(string(data)),
		cluster.WithRetryCount(100),
		// Trap 4: by default the library waits only nanoseconds between attempts, and exhausts them before a shard has
		// moved. An attempt is repeated only if no member got the message.
		cluster.WithRetryAction(func(n int) int {
			attempts++
			time.Sleep(50 * time.Millisecond)
			return n + 1
		}))
	m.counts.asked(attempts, err == nil)
	out := answer{ask: a, Outcome: timedOut}
	if err != nil {
		slog.Warn("no answer", "request", a.Request, "shard", a.Shard, "error", err)
		return out
	}
	text, isText := got.(*wrapperspb.StringValue)
	if !isText {
		slog.Warn("unexpected answer", "type", fmt.Sprintf("%T", got))
		return out
	}
	if err := json.Unmarshal([]byte(text.GetValue()), &out); err != nil {
		slog.Warn("reading an answer", "error", err)
	}
	return out
}
