// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/canary/cluster"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	"github.com/knative-cdevents/knative-cdevents/reconciler/pods"
	"github.com/knative-cdevents/knative-cdevents/reconciler/service"
)

var cart = types.NamespacedName{Namespace: "shop", Name: "cart"}

// bench fakes all dependencies of a Poller and records its calls.
type bench struct {
	mu       sync.Mutex
	pods     []*pods.Pod
	owned    error
	services map[types.NamespacedName]service.Declared
	leads    bool
	sequence int64
	asked    []string
	parts    []observer.Part
	polls    map[string]int
	refused  int
	wrong    int
	// ask is called before Members answers.
	ask func()
}

func newBench() *bench {
	b := &bench{
		leads: true, sequence: 7, polls: map[string]int{},
		services: map[types.NamespacedName]service.Declared{cart: {UID: "uid-cart", Stateful: true}},
	}
	for _, ip := range []string{"10.0.0.1", "10.0.0.2"} {
		b.pods = append(b.pods, &pods.Pod{
			Namespace: "shop", Name: "pod-" + ip, UID: types.UID(ip), IP: ip, Ready: true, Service: "cart",
			ServiceUID: "uid-cart", Revision: "cart-00001",
			Annotations: map[string]string{v1alpha1.AnnotationRuntime: "pekko", v1alpha1.AnnotationEntityTypes: "Cart,Order"},
		})
	}
	return b
}

func (b *bench) poller() *Poller {
	return NewPoller(Options{Pods: b, API: b, Metrics: b, Now: time.Now, Services: b, View: b})
}

func (b *bench) Declared() map[types.NamespacedName]service.Declared { return b.services }

func (b *bench) IsLeaderFor(types.NamespacedName) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.leads
}

func (b *bench) Sequence(types.NamespacedName, types.UID) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sequence
}

func (b *bench) Update(key types.NamespacedName, p observer.Part) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if key == cart {
		b.parts = append(b.parts, p)
	}
}

func (*bench) UpdateCluster(types.NamespacedName, observer.Part) {}

func (*bench) Synced() bool                             { return true }
func (b *bench) Of(types.NamespacedName) []*pods.Pod    { return b.pods }
func (b *bench) Owned(context.Context, *pods.Pod) error { return b.owned }
func (b *bench) Polled(outcome string)                  { b.mu.Lock(); defer b.mu.Unlock(); b.polls[outcome]++ }
func (b *bench) Refused()                               { b.refused++ }
func (b *bench) Misdeclared(n int)                      { b.wrong = n }
func (b *bench) note(what string, at netip.AddrPort) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, what+" "+at.String())
}

// requests are those that were sent so far. Those for events go on after a poll.
func (b *bench) requests() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.asked)
}

func (b *bench) last() observer.Part {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.parts[len(b.parts)-1]
}

func (b *bench) view(t *testing.T) *lifecycle.Cluster {
	t.Helper()
	v, ok := b.last().Value.(*lifecycle.Cluster)
	if !ok {
		t.Fatalf("the part is not a cluster: %+v", b.last())
	}
	return v
}

func (b *bench) Members(_ context.Context, at netip.AddrPort) (cluster.Members, error) {
	if b.ask != nil {
		b.ask()
	}
	b.note("members", at)
	m := cluster.Members{SelfNode: "pekko://shop@" + at.Addr().String() + ":25520"}
	for _, p := range b.pods {
		m.Members = append(m.Members, cluster.Member{Node: "pekko://shop@" + p.IP + ":25520", Status: "Up"})
	}
	return m, nil
}

func (b *bench) Shards(_ context.Context, at netip.AddrPort, entityType string) ([]string, error) {
	b.note(entityType, at)
	if at.Addr().String() == "10.0.0.2" && entityType == "Order" {
		return nil, errors.New("500")
	}
	return []string{entityType + at.Addr().String()}, nil
}

func (b *bench) Events(ctx context.Context, at netip.AddrPort, changed func(string)) error {
	b.note("events", at)
	changed("MemberUp")
	<-ctx.Done()
	return ctx.Err()
}

// TestPanicOfOneClusterEndsNoOther: a bug in reading one cluster must not end the process, and with it everybody's events.
func TestPanicOfOneClusterEndsNoOther(t *testing.T) {
	t.Parallel()
	b := newBench()
	w := b.poller()
	w.sweep(t.Context())
	w.Now = func() time.Time { panic("no clock") }
	if again := w.pollSafely(t.Context(), cart); again != afterPanic || b.polls["failed"] != 1 {
		t.Errorf("polled again after %s; the polls: %v", again, b.polls)
	}
}

func TestPoll(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.ask = func() { b.mu.Lock(); defer b.mu.Unlock(); b.sequence = 9 } // a transition during the poll
	w := b.poller()
	w.sweep(t.Context())
	if again := w.poll(t.Context(), cart); again != whileMoving {
		t.Errorf("next poll after %s", again)
	}
	v, p := b.view(t), b.last()
	if v.Base != 7 || v.State != lifecycle.ClusterReady || v.Settled || p.Owner != "uid-cart" || !p.Volatile ||
		p.Name != lifecycle.ObjectCluster || p.Version != "1" {
		t.Errorf("%+v %+v", p, v)
	}
	if b.polls["partial"] != 1 || w.States()[lifecycle.ClusterReady] != 1 {
		t.Errorf("%v, %v", b.polls, w.States())
	}
	eventually(t, "seven requests were sent", func() bool { return len(b.requests()) == 7 })
	for _, a := range b.requests() {
		if !netip.MustParseAddrPort(a[len(a)-len("10.0.0.1:7626"):]).IsValid() {
			t.Error(a)
		}
	}
	// The transition makes the last poll outdated, so the cluster is polled again.
	w.sweep(t.Context())
	if key, _ := w.queue.Get(); key != cart {
		t.Errorf("due: %s", key)
	}
}

func TestSkippedPods(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*bench)
		polls  string
		seen   bool
	}{
		"pods of another owner": {func(b *bench) { b.owned = &pods.RefusedError{Why: "is not"} }, "unanswered", true},
		"owner lookup fails":    {func(b *bench) { b.owned = errors.New("no answer") }, "failed", false},
		"another Service":       {func(b *bench) { b.pods[0].ServiceUID, b.pods[1].ServiceUID = "x", "x" }, "complete", true},
		"nothing declared": {
			func(b *bench) { b.pods[0].Annotations, b.pods[1].Annotations = nil, nil }, "complete",
			true,
		},
		"no management port": {func(b *bench) { custom(b.pods[0]); custom(b.pods[1]) }, "complete", true},
	} {
		b := newBench()
		c.change(b)
		w := b.poller()
		w.sweep(t.Context())
		w.poll(t.Context(), cart)
		if len(b.requests()) > 0 || b.polls[c.polls] != 1 || (len(b.parts) == 1) != c.seen {
			t.Errorf("%s: asked %v, polls %v, seen %v", name, b.requests(), b.polls, b.parts)
		}
		if name == "pods of another owner" && (b.view(t).State != lifecycle.ClusterUnknown || b.refused != 2) {
			t.Errorf("%s: refused %d, %+v", name, b.refused, b.view(t))
		}
	}
}

func custom(p *pods.Pod) { p.Annotations = map[string]string{v1alpha1.AnnotationRuntime: "custom"} }

func TestOnlyTheLeaderPolls(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.leads = false
	w := b.poller()
	w.sweep(t.Context())
	w.Changed(cart)
	if w.queue.Len() != 0 || w.poll(t.Context(), cart) != 0 {
		t.Error("polls without the lead")
	}
	b.leads = true
	b.services[types.NamespacedName{Namespace: "shop", Name: "bad"}] = service.Declared{UID: "u", Wrong: true}
	if w.sweep(t.Context()); w.queue.Len() != 1 || b.wrong != 1 {
		t.Errorf("%d in the queue, %d wrong", w.queue.Len(), b.wrong)
	}
	c := w.clusters[cart]
	w.poll(t.Context(), cart)
	b.leads = false
	if w.sweep(t.Context()); c.ended.Err() == nil || len(w.clusters) != 0 {
		t.Error("the polling does not end with the lead")
	}
	if p := b.last(); p.Value != nil || p.Version != "2" {
		t.Errorf("the observation was not withdrawn: %+v", p)
	}
	b.leads = true
	w.sweep(t.Context())
	b.services = map[types.NamespacedName]service.Declared{cart: {UID: "made-again", Stateful: true}}
	if w.sweep(t.Context()); w.clusters[cart].uid != "made-again" {
		t.Error("polls for the deleted Service of the same name")
	}
}

// The result of a poll is discarded if the lead is lost during the poll.
func TestLeadLostDuringPoll(t *testing.T) {
	t.Parallel()
	b := newBench()
	w := b.poller()
	w.sweep(t.Context())
	c := w.clusters[cart]
	b.ask = func() { c.end() }
	if again := w.poll(t.Context(), cart); again != 0 || len(b.parts) != 0 {
		t.Errorf("next poll after %s, parts %v", again, b.parts)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	b := newBench()
	w := b.poller()
	ended := make(chan struct{})
	go func() { defer close(ended); w.Run(ctx) }()
	eventually(t, "it polls, and an event triggers another poll", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.parts) >= 2
	})
	cancel()
	<-ended
}

func TestInstruments(t *testing.T) {
	t.Parallel()
	i, err := NewInstruments()
	if err != nil {
		t.Fatal(err)
	}
	if err := i.Watch(newBench().poller()); err != nil {
		t.Error(err)
	}
	i.Polled("complete")
	i.Refused()
	if i.Misdeclared(3); i.wrong.Load() != 3 {
		t.Errorf("%d Services are misdeclared, want 3", i.wrong.Load())
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if is() {
			return
		}
	}
	t.Fatalf("not within ten seconds: %s", what)
}

// The newest Revision declares a type that the older one has had without declaring it: its shards are there as well.
func TestEveryPodIsAskedForThePlannedTypes(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"", "observe"} {
		b := newBench()
		old, latest := b.pods[0], b.pods[1]
		old.Generation, latest.Generation = 1, 2
		old.Annotations = map[string]string{v1alpha1.AnnotationRuntime: "pekko", v1alpha1.AnnotationEntityTypes: "Cart"}
		latest.Annotations = map[string]string{
			v1alpha1.AnnotationRuntime:     "pekko",
			v1alpha1.AnnotationEntityTypes: "Cart,Till",
		}
		if mode != "" {
			latest.Annotations[v1alpha1.AnnotationPlacement] = mode
		}
		next := *latest // its pods never start
		next.Generation, next.Name, next.IP = 3, "cart-3", ""
		next.Annotations = map[string]string{v1alpha1.AnnotationRuntime: "pekko"}
		b.pods = append(b.pods, &next)
		w := b.poller()
		w.sweep(t.Context())
		w.poll(t.Context(), cart)
		if asked := slices.ContainsFunc(b.requests(), func(a string) bool { return strings.HasPrefix(a, "Till "+old.IP) }); asked != (mode != "") {
			t.Errorf("placement %q: asked %v", mode, b.requests())
		}
	}
}

// planning notes what a Planner is asked for.
type planning struct{ asked []string }

func (p *planning) Place(context.Context, types.NamespacedName, cluster.Layout) (*cluster.Placement, error) {
	p.asked = append(p.asked, "place")
	return nil, nil //nolint:nilnil // unknown, which is not an error
}

func (p *planning) Look(context.Context, types.NamespacedName, types.UID) error {
	p.asked = append(p.asked, "look")
	return nil
}

// While a pod does not answer, no plan is made, and still members learn what became of the pods of others.
func TestNoPlanWhileAPodDoesNotAnswer(t *testing.T) {
	t.Parallel()
	b, p := newBench(), &planning{}
	poller := b.poller()
	poller.Planner = p
	poller.sweep(t.Context())
	poller.poll(t.Context(), cart) // the second pod fails
	b.pods = b.pods[:1]
	poller.poll(t.Context(), cart)
	b.pods = nil // scaled to zero
	poller.poll(t.Context(), cart)
	if !slices.Equal(p.asked, []string{"look", "place", "look"}) {
		t.Errorf("asked to %v", p.asked)
	}
}
