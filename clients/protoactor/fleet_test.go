// SPDX-License-Identifier: Apache-2.0

package protoactor

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	provider "github.com/asynkron/protoactor-go/cluster/clusterproviders/test"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/knative-cdevents/knative-cdevents/clients/placement"
)

const (
	testShards = 100
	testLease  = time.Second
)

// controller fakes the service of plans.
type controller struct {
	*httptest.Server
	mu      sync.Mutex
	plan    *placement.Plan
	status  int
	reason  string
	changed chan struct{}
}

func newController(t *testing.T) *controller {
	t.Helper()
	c := &controller{status: http.StatusNotFound, reason: "NoPlanYet", changed: make(chan struct{})}
	c.Server = httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(c.Close)
	return c
}

func (c *controller) serve(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer secret" || r.URL.Path != "/v1/namespaces/shop/services/cart/placement" {
		http.Error(w, `{"error":"wrong request"}`, http.StatusTeapot)
		return
	}
	wait, _ := time.ParseDuration(r.URL.Query().Get("wait"))
	until := time.After(wait)
	for {
		c.mu.Lock()
		p, status, reason, changed := c.plan, c.status, c.reason, c.changed
		c.mu.Unlock()
		if status != http.StatusOK {
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": "no", "reason": reason})
			return
		}
		if r.Header.Get("If-None-Match") != strconv.Quote(strconv.FormatInt(p.Version, 10)) {
			_ = json.NewEncoder(w).Encode(p)
			return
		}
		select {
		case <-changed:
		case <-until:
			w.WriteHeader(http.StatusNotModified)
			return
		case <-r.Context().Done():
			return
		}
	}
}

func (c *controller) set(status int, reason string, p *placement.Plan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p != nil {
		if c.plan != nil {
			p.Version = c.plan.Version + 1
		}
		c.plan = p
	}
	c.status, c.reason = status, reason
	close(c.changed)
	c.changed = make(chan struct{})
}

// registry knows all active grains of all members, and all requests that were handled. Each grain has to take its lock.
type registry struct {
	mu      sync.Mutex
	active  map[string]string
	twice   []string
	handled map[string]int
	dead    map[string]bool
}

func newRegistry() *registry {
	return &registry{active: map[string]string{}, handled: map[string]int{}, dead: map[string]bool{}}
}

func (r *registry) begin(identity, node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if had := r.active[identity]; had != "" && !r.dead[node] {
		r.twice = append(r.twice, fmt.Sprintf("%s on %s and %s", identity, had, node))
	}
	r.active[identity] = node
}

func (r *registry) end(identity, node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.active[identity] == node {
		delete(r.active, identity)
	}
}

// kill forgets the grains of a process that was killed.
func (r *registry) kill(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dead[node] = true
	for identity, at := range r.active {
		if at == node {
			delete(r.active, identity)
		}
	}
}

func (r *registry) handle(request, node string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead[node] {
		return false
	}
	r.handled[request]++
	return true
}

// cart is a grain.
type cart struct {
	registry       *registry
	node, identity string
}

func (c *cart) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *cluster.ClusterInit:
		c.identity = m.Identity.GetIdentity()
		c.registry.begin(c.identity, c.node)
	case *actor.Stopping:
		time.Sleep(2 * time.Millisecond) // such as saving its state
	case *actor.Stopped:
		c.registry.end(c.identity, c.node)
	case *wrapperspb.StringValue:
		if c.registry.handle(m.GetValue(), c.node) {
			ctx.Respond(wrapperspb.String(c.node))
		}
	}
}

// node is one member.
type node struct {
	name, revision string
	lookup         *Lookup
	cluster        *cluster.Cluster
	registry       *registry
	down           atomic.Bool
}

// fleet is a cluster of members in this process, with a controller.
type fleet struct {
	*testing.T
	agent      *provider.InMemAgent
	controller *controller
	registry   *registry
	token      string
	nodes      []*node
	// lease of the members that start from now on.
	lease time.Duration
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{T: t, agent: provider.NewInMemAgent(), controller: newController(t), registry: newRegistry(), token: filepath.Join(t.TempDir(), "token"), lease: testLease}
	if err := os.WriteFile(f.token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, n := range f.nodes {
			n.leave()
		}
		if len(f.registry.twice) > 0 {
			t.Errorf("%d grains were active twice: %v", len(f.registry.twice), f.registry.twice[:min(5, len(f.registry.twice))])
		}
	})
	return f
}

func (f *fleet) settings() Settings {
	return Settings{
		Shards: testShards, URL: f.controller.URL, Namespace: "shop", Service: "cart", TokenFile: f.token, Wait: time.Second, StaleAfter: 3 * time.Second,
		MinBackoff: 50 * time.Millisecond, MaxBackoff: 200 * time.Millisecond, Lease: f.lease, Tick: 50 * time.Millisecond,
		// The identities of the tests are numbers.
		ShardOf: func(identity string, shards int) int { n, _ := strconv.Atoi(identity); return n % shards },
	}
}

func (f *fleet) start(revision string) *node {
	f.Helper()
	return f.startAt(revision, 0)
}

func (f *fleet) startAt(revision string, port int) *node {
	f.Helper()
	n, kind := f.newNode(revision)
	return f.join(n, port, kind)
}

// newNode makes a member with its kind of grains.
func (f *fleet) newNode(revision string) (*node, *cluster.Kind) {
	f.Helper()
	n := &node{name: fmt.Sprintf("%s-%d", revision, len(f.nodes)), revision: revision, registry: f.registry}
	lookup, err := New(f.settings())
	if err != nil {
		f.Fatal(err)
	}
	n.lookup = lookup
	return n, cluster.NewKind("Cart", actor.PropsFromProducer(func() actor.Actor { return &cart{registry: f.registry, node: n.name} }))
}

// join starts a member.
func (f *fleet) join(n *node, port int, kinds ...*cluster.Kind) *node {
	f.Helper()
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: logLevel()}))
	}))
	n.cluster = cluster.New(system, cluster.Configure("test", provider.NewTestProvider(f.agent), n.lookup, remote.Configure("127.0.0.1", port),
		cluster.WithKinds(kinds...), cluster.WithRequestTimeout(6*time.Second)))
	n.cluster.StartMember()
	f.nodes = append(f.nodes, n)
	return n
}

func logLevel() slog.Level {
	if os.Getenv("PLACEMENT_TEST_LOG") != "" {
		return slog.LevelWarn
	}
	return slog.LevelError + 1
}

// leave ends a member in the way that a pod ends.
func (n *node) leave() {
	if n.down.Swap(true) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = n.lookup.Leave(ctx) // Shutdown tries again
	n.cluster.Shutdown(true)
}

// kill ends a member as if its process were killed: it answers nothing, and its grains are gone. The others learn it
// later.
func (n *node) kill() {
	n.down.Store(true)
	n.registry.kill(n.name)
	n.silence()
	n.cluster.Remote.Shutdown(false)
}

// silence ends what the member does by itself, without a farewell.
func (n *node) silence() { n.lookup.group.Kill() }

// expel removes a killed member from the list of members, as the Kubernetes provider does when its pod is not Ready any
// more.
func (f *fleet) expel(n *node) { f.agent.DeregisterService(n.cluster.ActorSystem.ID) }

func (n *node) address() string { return n.cluster.ActorSystem.Address() }

// plan makes a plan by the owners of shards.
func (f *fleet) plan(owner func(shard int) *node) *placement.Plan {
	p := &placement.Plan{Namespace: "shop", Service: "cart", Version: 1000, Mode: placement.Enforce, AtOnce: 10}
	e := placement.EntityType{Name: "Cart", Shards: testShards}
	index := map[*node]int{}
	for _, n := range f.nodes {
		if !n.down.Load() {
			index[n] = len(p.Members)
			p.Members = append(p.Members, placement.PlanMember{Address: n.address(), Revision: n.revision})
			e.Quotas = append(e.Quotas, 0)
		}
	}
	for s := range testShards {
		i := index[owner(s)]
		e.Owners = append(e.Owners, i)
		e.Quotas[i]++
	}
	p.EntityTypes = []placement.EntityType{e}
	return p
}

// owners returns which member holds each shard, by what the members serve.
func (f *fleet) owners() map[int]*node {
	f.Helper()
	out := map[int]*node{}
	for _, n := range f.nodes {
		if n.down.Load() {
			continue
		}
		var said struct {
			Regions []struct{ ShardID string }
		}
		if code := n.get(f.T, "/cluster/shards/Cart", &said); code != http.StatusOK {
			f.Fatalf("%s answers %d", n.name, code)
		}
		for _, r := range said.Regions {
			s, err := strconv.Atoi(r.ShardID)
			if err != nil {
				f.Fatal(err)
			}
			out[s] = n
		}
	}
	return out
}

func (n *node) get(t *testing.T, path string, into any) int {
	t.Helper()
	w := httptest.NewRecorder()
	n.lookup.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	if w.Code == http.StatusOK {
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
			t.Fatalf("%s: %v in %s", path, err, w.Body)
		}
	}
	return w.Code
}

// until waits for a condition.
func (f *fleet) until(what string, within time.Duration, ok func() bool) {
	f.Helper()
	for deadline := time.Now().Add(within); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			counts := map[string]int{}
			for _, n := range f.owners() {
				counts[n.name]++
			}
			f.Fatalf("not within %s: %s; shards: %v", within, what, counts)
		}
	}
}

// together waits until all members see each other.
func (f *fleet) together() {
	f.Helper()
	defer func() {
		if f.Failed() {
			for _, n := range f.nodes {
				f.Logf("%s (%s) down %v: %+v", n.name, n.address(), n.down.Load(), n.lookup.group.Members)
			}
		}
	}()
	f.until("one cluster", 20*time.Second, func() bool {
		living, agreed := 0, true
		for _, n := range f.nodes {
			if !n.down.Load() {
				living++
			}
		}
		for _, n := range f.nodes {
			others, joined := n.lookup.group.Members.Others()
			agreed = agreed && (n.down.Load() || joined && len(others) == living-1)
		}
		return agreed
	})
}

// owned waits until the shards are where they are expected.
func (f *fleet) owned(within time.Duration, owner func(shard int) *node) {
	f.Helper()
	f.until("the planned owners", within, func() bool {
		now := f.owners()
		for s := range testShards {
			if now[s] != owner(s) {
				return false
			}
		}
		return true
	})
}

func (f *fleet) moves() (n int64) {
	for _, one := range f.nodes {
		n += one.lookup.Moves()
	}
	return n
}
