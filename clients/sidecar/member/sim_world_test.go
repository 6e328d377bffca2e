// SPDX-License-Identifier: Apache-2.0

package member

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/clients/placement"
)

// referee is told by the containers which shard they handle a request of. It is the oracle.
type referee struct {
	mu       sync.Mutex
	active   map[int]map[string]int // by shard and pod
	overlaps []string
	handled  int
}

func (r *referee) begin(w *world, shard int, pod string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.active[shard] == nil {
		r.active[shard] = map[string]int{}
	}
	r.active[shard][pod]++
	r.handled++
	for other, n := range r.active[shard] {
		if other != pod && n > 0 {
			r.overlaps = append(r.overlaps, fmt.Sprintf("%s: shard %d on %s and %s", w.clock(), shard, other, pod))
		}
	}
}

func (r *referee) end(shard int, pod string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.active[shard][pod] > 0 {
		r.active[shard][pod]--
	}
}

// kill ends what a container handles.
func (r *referee) kill(pod string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, pods := range r.active {
		delete(pods, pod)
	}
}

// node is a pod. Its container outlives its sidecar.
type node struct {
	name, address string
	// member is the sidecar that runs; nil: none.
	member *Member
	stop   context.CancelFunc
	// running ends with the pod.
	running context.Context //nolint:containedctx // a test's
	end     context.CancelFunc
	// cutPeers and cutController: no message gets through. frozen: nothing happens before this time.
	cutPeers, cutController bool
	frozen                  time.Time
	dead, gone              bool
}

type world struct {
	*testing.T
	referee
	random *rand.Rand
	dir    string
	strict bool
	// skewed: the members and the controller are of different versions.
	skewed bool
	began  time.Time

	lock  sync.Mutex
	nodes map[string]*node
	next  int
	// plans are all that the controller ever stored; the last one is in force. away: it does not answer.
	plans []placement.Plan
	away  bool
	// goneSince is when the controller learned that the pods of members are gone, by pin. They are listed for a while.
	goneSince map[string]time.Time
	// changed is closed with each plan.
	changed chan struct{}
}

func (w *world) clock() string { return time.Since(w.began).Round(time.Millisecond).String() }

// n returns a random number, for whoever asks.
func (w *world) n(below int) int {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.random.IntN(below)
}

// between waits a random time.
func (w *world) between(ctx context.Context, least, most time.Duration) bool {
	return pause(ctx, least+time.Duration(w.n(int(most-least)+1)))
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// thaw waits until a node is not frozen.
func (w *world) thaw(ctx context.Context, n *node) bool {
	for {
		w.lock.Lock()
		until := n.frozen
		w.lock.Unlock()
		if !time.Now().Before(until) {
			return ctx.Err() == nil
		}
		if !pause(ctx, time.Until(until)) {
			return false
		}
	}
}

var errCut = errors.New("no route")

// link is what one process of a pod sends through.
type link struct {
	world *world
	node  *node
	pin   string
	// version of the process.
	version version
}

// Call implements Network: messages take time, and some get lost, or their answers do.
func (l *link) Call(ctx context.Context, to placement.Peer, r placement.Request) (placement.Reply, error) {
	w := l.world
	if !w.thaw(ctx, l.node) || !w.between(ctx, 100*time.Microsecond, 20*time.Millisecond) {
		return placement.Reply{}, ctx.Err()
	}
	w.lock.Lock()
	var at *node
	for _, n := range w.nodes {
		if n.address == to.Address && n.member != nil && n.member.key.pin == to.Pin {
			at = n
		}
	}
	cut := at == nil || at.dead || at.cutPeers || l.node.cutPeers || w.random.IntN(200) == 0
	var m *Member
	if !cut {
		m = at.member
	}
	w.lock.Unlock()
	if cut {
		<-ctx.Done() // nothing comes back
		return placement.Reply{}, errCut
	}
	if !w.thaw(ctx, at) {
		return placement.Reply{}, ctx.Err()
	}
	got := m.Receive(ctx, placement.Peer{Pin: l.pin, Address: l.node.address}, sent(l.version, r))
	got = sent(w.versionOf(at), got)
	w.lock.Lock()
	cut = at.dead || at.cutPeers || l.node.cutPeers || w.random.IntN(200) == 0
	w.lock.Unlock()
	if cut {
		<-ctx.Done()
		return placement.Reply{}, errCut
	}
	if !w.between(ctx, 100*time.Microsecond, 20*time.Millisecond) || !w.thaw(ctx, l.node) {
		return placement.Reply{}, ctx.Err()
	}
	return got, nil
}

// RoundTrip implements http.RoundTripper: the controller, as the node reaches it. Its replicas lag behind at times.
func (l *link) RoundTrip(r *http.Request) (*http.Response, error) {
	w, ctx := l.world, r.Context()
	wait, _ := time.ParseDuration(r.URL.Query().Get("wait"))
	until := time.Now().Add(wait)
	answer := func(status int, body any) (*http.Response, error) {
		data, err := json.Marshal(body)
		if err == nil && w.skewed {
			data, err = newer.rewrite(data)
		}
		if !w.between(ctx, time.Millisecond, 50*time.Millisecond) || !w.thaw(ctx, l.node) {
			return nil, ctx.Err()
		}
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(data))}, err
	}
	if !w.between(ctx, time.Millisecond, 50*time.Millisecond) || !w.thaw(ctx, l.node) {
		return nil, ctx.Err()
	}
	for {
		w.lock.Lock()
		if l.node.cutController || w.away || l.node.dead {
			w.lock.Unlock()
			return nil, errCut
		}
		if r.Method == http.MethodPut || r.Method == http.MethodDelete {
			var in placement.Registration
			if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
				panic(err)
			}
			if l.node.gone {
				w.lock.Unlock()
				return answer(http.StatusForbidden, nil)
			}
			if r.Method == http.MethodPut {
				w.register(l.node, in)
			} else {
				w.store(func(p *placement.Plan) {
					for i := range p.Peers {
						p.Peers[i].Left = p.Peers[i].Left || p.Peers[i].Pin == in.Pin
					}
				})
			}
			p, lost := w.plans[len(w.plans)-1], w.random.IntN(20) == 0
			w.lock.Unlock()
			if lost {
				return nil, errCut
			}
			return answer(http.StatusOK, p)
		}
		p := w.plans[len(w.plans)-1]
		if w.random.IntN(10) == 0 {
			p = w.plans[max(0, len(w.plans)-1-w.random.IntN(5))]
		}
		changed := w.changed
		w.lock.Unlock()
		if r.Header.Get("If-None-Match") != strconv.Quote(strconv.FormatInt(p.Version, 10)) {
			return answer(http.StatusOK, p)
		}
		select {
		case <-changed:
		case <-time.After(time.Until(until)):
			return answer(http.StatusNotModified, nil)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// store makes a plan of the last one. The caller has the lock.
func (w *world) store(change func(p *placement.Plan)) {
	p := placement.Plan{Namespace: "shop", Service: "cart", Mode: placement.Observe, AtOnce: 5}
	if len(w.plans) > 0 {
		p = w.plans[len(w.plans)-1]
		p.Peers = slices.Clone(p.Peers)
	}
	change(&p)
	p.Peers = slices.DeleteFunc(p.Peers, func(one placement.Peer) bool {
		since, gone := w.goneSince[one.Pin]
		if one.Gone && !gone {
			w.goneSince[one.Pin] = time.Now()
		}
		return gone && time.Since(since) > 2*time.Minute
	})
	p.Version = max(time.Now().UnixMilli(), p.Version+1)
	w.plans = append(w.plans, p)
	if w.changed != nil {
		close(w.changed)
	}
	w.changed = make(chan struct{})
}

func (w *world) register(n *node, in placement.Registration) {
	w.store(func(p *placement.Plan) {
		peer := placement.Peer{Pod: n.name, Address: in.Address, Pin: in.Pin}
		for _, one := range p.Peers {
			if one.Pod == n.name && one.Pin != in.Pin && !one.Left {
				peer.Restarts = one.Restarts + 1
			} else if one.Pin == in.Pin {
				peer = one
			}
		}
		p.Peers = slices.DeleteFunc(p.Peers, func(one placement.Peer) bool { return one.Pod == n.name })
		p.Peers = append(p.Peers, peer)
	})
}

// replan gives shards to members at random.
func (w *world) replan() {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.store(func(p *placement.Plan) {
		p.Mode, p.Held, p.Members, p.EntityTypes = placement.Enforce, "", nil, nil
		e := placement.EntityType{Name: "Key", Shards: simShards}
		for _, peer := range p.Peers {
			if !peer.Gone {
				p.Members = append(p.Members, placement.PlanMember{Address: peer.Address, Revision: "r"})
			}
		}
		if len(p.Members) == 0 || w.random.IntN(5) == 0 {
			p.Mode = placement.Observe
			return
		}
		if w.random.IntN(5) == 0 {
			p.Held = "MemberUnreachable"
		}
		e.Quotas = make([]int, len(p.Members))
		for range simShards {
			o := w.random.IntN(len(p.Members))
			e.Owners = append(e.Owners, o)
			e.Quotas[o]++
		}
		p.EntityTypes = []placement.EntityType{e}
	})
}

func (w *world) addPod() { w.addPodAt("") }

// addPodAt adds a pod at an address that is free; empty: a new one.
func (w *world) addPodAt(address string) {
	w.lock.Lock()
	w.next++
	n := &node{name: fmt.Sprintf("pod-%d", w.next), address: cmp.Or(address, fmt.Sprintf("10.0.0.%d:8482", w.next))}
	n.running, n.end = context.WithCancel(context.Background())
	w.nodes[n.name] = n
	w.lock.Unlock()
	w.startSidecar(n)
}

func (w *world) startSidecar(n *node) {
	l := &link{world: w, node: n, version: w.versionOf(n)}
	m, err := New(Options{
		Settings: placement.Settings{
			Shards: simShards, ShardOf: placement.ShardOf, URL: "http://controller", Namespace: "shop", Service: "cart",
			TokenFile: filepath.Join(w.dir, "token"), Wait: 5 * time.Second, StaleAfter: 30 * time.Second, MinBackoff: 100 * time.Millisecond,
			MaxBackoff: 2 * time.Second, Lease: simLease, Patience: 5 * time.Second, Tick: time.Second, Transport: l,
		},
		Kind: "Key", Address: n.address, RequestTimeout: simTimeout, Strict: w.strict, Network: l,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		w.Error(err)
		return
	}
	l.pin = m.key.pin
	ctx, stop := context.WithCancel(n.running)
	w.lock.Lock()
	n.member, n.stop = m, stop
	w.lock.Unlock()
	go func() { _ = m.Run(ctx) }()
}

// crash ends a sidecar without a word. Its container goes on with what it has.
func (w *world) crash(n *node) {
	w.lock.Lock()
	m := n.member
	n.member = nil
	w.lock.Unlock()
	if m == nil {
		return
	}
	m.group.Kill()
	n.stop()
}

// leave has a process hand everything over, as far as it can in time.
func (w *world) leave(n *node, m *Member) {
	if m == nil {
		return
	}
	leaving, cancel := context.WithTimeout(n.running, simTimeout)
	defer cancel()
	_ = m.Leave(leaving)
}

// deleting is what the controller says of a pod that is being deleted.
func (w *world) deleting(n *node) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.says(n, func(p *placement.Peer) { p.Leaving = true })
}

// says stores something of the members of a pod. The caller has the lock.
func (w *world) says(n *node, what func(*placement.Peer)) {
	w.store(func(p *placement.Plan) {
		for i := range p.Peers {
			if p.Peers[i].Pod == n.name {
				what(&p.Peers[i])
			}
		}
	})
}

// kill ends a pod. The API learns it some time later.
func (w *world) kill(n *node) {
	w.crash(n)
	w.lock.Lock()
	n.dead = true
	if n.gone {
		delete(w.nodes, n.name)
	}
	w.lock.Unlock()
	n.end()
	w.referee.kill(n.name)
}

// gone is what the API says after a pod has ended.
func (w *world) gone(n *node) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.says(n, func(p *placement.Peer) { p.Gone = true })
	n.gone = true
	if n.dead {
		delete(w.nodes, n.name)
	}
}

// pick returns a node that lives, or nil.
func (w *world) pick() *node {
	w.lock.Lock()
	defer w.lock.Unlock()
	names := slices.Sorted(maps.Keys(w.nodes))
	names = slices.DeleteFunc(names, func(name string) bool { n := w.nodes[name]; return n.dead || n.member == nil })
	if len(names) == 0 {
		return nil
	}
	return w.nodes[names[w.random.IntN(len(names))]]
}
