// SPDX-License-Identifier: Apache-2.0

// Package member is the part of a pod in a cluster that shards requests by key.
//
// Its invariants:
//   - A request of a shard is handled only during a Visit, and only while this member holds the shard.
//   - A shard leaves only after its last Visit has ended, and the application had its chance to write what it holds.
//   - Only members that registered with the controller are heard. Each proves that it has the key that it registered.
//   - What an earlier process of the same pod began may still run in the container. Until the request time-out is over,
//     no member gets a shard that it may have held.
package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/knative-cdevents/knative-cdevents/clients/placement"
)

// Options of a member.
type Options struct {
	// Settings must be complete, except for Register.
	Settings placement.Settings
	// Kind is the entity type whose shards this member holds.
	Kind string
	// Address is where the other members reach this one, as ip:port.
	Address string
	// RequestTimeout is how long a request may take. What an earlier process of this pod began has ended after it, and
	// so have requests of a shard that is to leave.
	RequestTimeout time.Duration
	// Together: the container restarts whenever this process does, so that nothing of an earlier one runs.
	Together bool
	// Strict: refuse all requests rather than risk that another member has taken the shards of this one. It does so when
	// neither the controller nor most of the members have answered for two thirds of the lease.
	Strict bool
	// Hooks tell the application which shards it has. Nil: it has none.
	Hooks Hooks
	// Network reaches other members. Nil: TLS.
	Network Network
	Log     *slog.Logger
}

// Hooks tell the application that a shard arrives, or leaves.
type Hooks interface {
	// Acquire returns after the application is ready for a shard. After an error, the shard's requests fail.
	Acquire(ctx context.Context, shard int, version, epoch int64) error
	// Release returns after the application has written what it holds of a shard. The shard leaves even after an error.
	Release(ctx context.Context, shard int, version, epoch int64) error
}

// Network sends requests to other members.
type Network interface {
	Call(ctx context.Context, to placement.Peer, r placement.Request) (placement.Reply, error)
}

// Member of a cluster. It implements placement.Runtime.
type Member struct {
	options Options
	began   time.Time
	group   *placement.Group
	network Network
	key     *key

	// serial guards what the group and the visits change.
	serial sync.Mutex
	shards map[int]*local

	view atomic.Pointer[view]
	// failed is closed when this member is not in the list any more.
	failed chan struct{}
	once   sync.Once
	// leaves: the first plan that says that this pod is being deleted has come.
	leaves sync.Once
	// heard is when this member last asked most of the others, and they answered.
	heard atomic.Pointer[time.Time]

	mu sync.Mutex
	// holders are the members that were last known to hold each shard.
	holders map[int]string
	// conns are the connections to other members.
	conns map[*peerConn]struct{}

	// tells are messages, by the member that they are for, and releases calls of a hook. A member with thousands of shards
	// that leaves has as many of them at once.
	tells, releases lanes
}

const (
	tellsAtOnce    = 16
	releasesAtOnce = 100
	// tellWithin is how long a message may wait for those before it.
	tellWithin = 10 * time.Second
)

// view is the list of members by one plan.
type view struct {
	plan      *placement.Plan
	byPin     map[string]placement.Peer
	byAddress map[string]placement.Peer
}

// New returns a member that does nothing before Run.
func New(o Options) (*Member, error) {
	m := &Member{
		options: o, began: time.Now(), shards: map[int]*local{}, failed: make(chan struct{}), holders: map[int]string{},
		conns:    map[*peerConn]struct{}{},
		tells:    lanes{most: tellsAtOnce, of: map[string]*lane{}},
		releases: lanes{most: releasesAtOnce, of: map[string]*lane{}},
	}
	m.view.Store(&view{})
	var err error
	if m.key, err = newKey(); err != nil {
		return nil, err
	}
	if m.network = o.Network; m.network == nil {
		m.network = &overTLS{client: &http.Client{Transport: m.Transport(false)}}
	}
	s := o.Settings
	s.Register = &placement.Registration{Address: o.Address, Pin: m.key.pin}
	if o.Strict {
		// A confirmation counts from when it was asked for.
		s.Wait = max(time.Second, (o.Settings.Lease / 6).Truncate(time.Second))
	}
	members := placement.NewRegistered(o.Address, m.key.pin, s.Lease)
	poller, err := placement.NewPoller(s, func(k placement.Known) { m.learn(k, members) })
	if err != nil {
		return nil, fmt.Errorf("reading the plan: %w", err)
	}
	m.group = placement.NewGroup(s, members, poller, m, o.Log)
	return m, nil
}

// Run follows the plan until the context ends. The error says why this member must end, and a new process begin.
func (m *Member) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer m.group.Close()
	go m.group.Poller.Run(ctx, m.options.Log)
	go m.group.Run()
	if m.options.Strict {
		go m.listen(ctx)
	}
	select {
	case <-ctx.Done():
		return nil
	case <-m.failed:
		return errors.New("the controller does not list this member any more; it must register anew")
	}
}

// learn takes a plan. What is allowed to others by the view comes after this member takes them into account.
func (m *Member) learn(k placement.Known, members *placement.Members) {
	p := k.Plan()
	if p == nil || p == m.view.Load().plan {
		return
	}
	v := &view{plan: p, byPin: map[string]placement.Peer{}, byAddress: map[string]placement.Peer{}}
	var all []placement.Member
	for _, peer := range p.Peers {
		all = append(all, placement.Member{
			ID: peer.Pin, Address: peer.Address, Kinds: []string{m.options.Kind},
			Leaving: peer.Leaving, Left: peer.Left, Gone: peer.Gone,
		})
		if !peer.Gone {
			v.byPin[peer.Pin], v.byAddress[peer.Address] = peer, peer
		}
	}
	me, listed := v.byPin[m.key.pin]
	if listed && me.Restarts > 0 && !m.options.Together {
		members.Before("an earlier process of this pod", m.began.Add(m.options.RequestTimeout))
	}
	expelled := members.Update(all, time.Now())
	m.view.Store(v)
	m.hangUp()
	switch {
	case expelled:
		m.options.Log.Error("this member is not in the controller's list any more; it handles nothing from now on")
		m.cut(errExpelled)
		m.once.Do(func() { close(m.failed) })
	case listed && me.Leaving:
		m.leaves.Do(func() { go m.leaveInTime() })
	}
}

var errExpelled = errors.New("this member is not part of the cluster any more")

func (m *Member) leaveInTime() {
	ctx, cancel := context.WithTimeout(m.group.Running(), m.options.RequestTimeout)
	defer cancel()
	if err := m.Leave(ctx); err != nil && m.group.Running().Err() == nil {
		m.options.Log.Warn("not all requests have ended in time", "error", err)
	}
}

// Leave hands all shards over, after what is open has ended, and lets this member hold none any more.
func (m *Member) Leave(ctx context.Context) error {
	return m.group.Leave(ctx) //nolint:wrapcheck // the context's cause
}

// Joined reports whether the controller lists this member.
func (m *Member) Joined() bool {
	_, joined := m.group.Members.Others()
	return joined
}

// Leaving reports whether the controller says that this pod is being deleted.
func (m *Member) Leaving() bool { return m.view.Load().byPin[m.key.pin].Leaving }

// Group returns the member's part in the placement.
func (m *Member) Group() *placement.Group { return m.group }

// ID returns the id of a shard.
func (m *Member) ID(shard int) placement.ShardID {
	return placement.ShardID{Kind: m.options.Kind, Shard: shard}
}

// Locate returns the member that probably holds a shard, and the version of the plan that says so; empty if no member
// can.
func (m *Member) Locate(shard int) (address string, version int64) {
	m.mu.Lock()
	h := m.holders[shard]
	m.mu.Unlock()
	address, version = m.group.Target(m.ID(shard))
	if h != "" && m.group.Members.Has(h) {
		return h, version
	}
	return address, version
}

// Remember notes which member holds a shard; empty: forget it.
func (m *Member) Remember(shard int, address string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if address == "" {
		delete(m.holders, shard)
		return
	}
	m.holders[shard] = address
}

// Address of this member.
func (m *Member) Address() string { return m.options.Address }

// Receive answers a request of another member.
func (m *Member) Receive(ctx context.Context, from placement.Peer, r placement.Request) placement.Reply {
	if why := m.rejects(from, r); why != "" {
		return placement.Reply{Error: why}
	}
	got := make(chan placement.Reply, 1)
	m.Serial(func() { m.group.Handle(r, func(out placement.Reply) { got <- out }) })
	if r.Released != nil || r.Left != nil {
		return placement.Reply{}
	}
	select {
	case out := <-got:
		return out
	case <-ctx.Done():
		return placement.Reply{Error: "the caller does not wait any longer"}
	}
}

// rejects says why a message is not answered: its sender is not a member, or speaks in the name of another one.
func (m *Member) rejects(from placement.Peer, r placement.Request) string {
	switch {
	case m.view.Load().byPin[from.Pin].Pin == "":
		return "this member does not know the caller"
	case r == placement.Request{}:
		return "this member does not know such a request; is it of an older version?"
	case r.Activate != nil:
		return "requests are forwarded, not activated"
	case r.Claim != nil && r.Claim.From != from.Address, r.Released != nil && r.Released.From != from.Address,
		r.Left != nil && r.Left.ID != from.Pin:
		return "the request is in the name of another member"
	}
	return ""
}

// Has implements placement.Runtime.
func (m *Member) Has(kind string) bool { return kind == m.options.Kind }

// Dropped implements placement.Runtime.
func (m *Member) Dropped(r placement.Released) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.holders[r.Shard] == r.From {
		delete(m.holders, r.Shard)
		if r.To != "" {
			m.holders[r.Shard] = r.To
		}
	}
}

// Serial implements placement.Runtime.
func (m *Member) Serial(f func()) {
	m.serial.Lock()
	defer m.serial.Unlock()
	f()
}

// Call implements placement.Runtime.
func (m *Member) Call(ctx context.Context, address string, r placement.Request) (placement.Reply, error) {
	peer, known := m.view.Load().byAddress[address]
	if !known {
		return placement.Reply{}, fmt.Errorf("member %s is not in the list", address)
	}
	var got placement.Reply
	if address == m.options.Address {
		got = m.Receive(ctx, peer, r)
	} else {
		var err error
		if got, err = m.network.Call(ctx, peer, r); err != nil {
			return got, fmt.Errorf("asking member %s: %w", address, err)
		}
	}
	if got.Error != "" {
		return got, fmt.Errorf("member %s: %s", address, got.Error)
	}
	return got, nil
}

// Tell implements placement.Runtime.
func (m *Member) Tell(address string, r placement.Request) {
	told := time.Now()
	m.tells.run(address, func() {
		if time.Since(told) > tellWithin {
			return // the member does not answer
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if _, err := m.Call(ctx, address, r); err != nil {
			m.options.Log.Debug("a member did not hear a message", "error", err)
		}
	})
}

// listen asks the other members of a strict cluster whether they live. When this member is cut off, it ends the
// requests that are open.
func (m *Member) listen(ctx context.Context) {
	limit := m.limit()
	for ctx.Err() == nil {
		if m.alone() {
			m.cut(errAlone)
		}
		if others, joined := m.group.Members.Others(); joined {
			m.hear(ctx, others, limit/4)
		}
		select {
		case <-ctx.Done():
		case <-time.After(limit / 8):
		}
	}
}

// hear asks the others whether they live.
func (m *Member) hear(ctx context.Context, others []string, within time.Duration) {
	asked := time.Now()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	answers := make(chan bool, len(others))
	for _, a := range others {
		go func() {
			_, err := m.Call(ctx, a, placement.Request{Status: true})
			answers <- err == nil
		}()
	}
	heard := 1 // itself
	for range others {
		if <-answers {
			heard++
		}
	}
	if heard > (len(others)+1)/2 && len(others) > 0 {
		m.heard.Store(&asked)
	}
}

var errAlone = errors.New("neither the controller nor most of the members answer, and the cluster is strict")

// limit is how long a strict member goes on without an answer. The others wait for the whole lease before they take its
// shards.
func (m *Member) limit() time.Duration { return m.options.Settings.Lease * 2 / 3 }

// alone reports whether a strict member must refuse.
func (m *Member) alone() bool {
	if !m.options.Strict {
		return false
	}
	last := m.group.Poller.Known().Asked()
	if h := m.heard.Load(); h != nil && h.After(last) {
		last = *h
	}
	return time.Since(last) > m.limit()
}

// Refuses says why this member handles nothing that has a key; nil: it does.
func (m *Member) Refuses() error {
	select {
	case <-m.failed:
		return errExpelled
	default:
	}
	if m.alone() {
		return errAlone
	}
	return nil
}

// Revision returns the Revision of a member by its pin, or of this one.
func (m *Member) Revision(pin string) string {
	return m.view.Load().byPin[cmp.Or(pin, m.key.pin)].Revision
}
