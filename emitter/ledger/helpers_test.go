// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

var (
	cart = v1alpha1.CDEventSubjectSpec{APIVersion: "serving.knative.dev/v1", Kind: "Service", Namespace: "shop", Name: "cart", UID: "u1"}
	key  = ledger.KeyOf(cart)
	noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
)

// everyone is a router that sends every event to the same sources.
type everyone []types.UID

func (e everyone) Exists(source types.UID) bool { return slices.Contains(e, source) }

func (everyone) Operator(source types.UID) bool { return source == "operator" }

func (everyone) NamespaceLabels(string) (map[string]string, bool, error) { return nil, false, nil }

func (e everyone) Replays(_ v1alpha1.CDEventSubjectSpec, told []types.UID, _ func() ledger.Labels) []types.UID {
	return slices.DeleteFunc(slices.Clone(e), func(source types.UID) bool { return slices.Contains(told, source) })
}

func (e everyone) Recipients(v1alpha1.CDEventSubjectSpec, ledger.Labels, lifecycle.Transition) []ledger.Recipient {
	var out []ledger.Recipient
	for _, s := range e {
		out = append(out, ledger.Recipient{Source: s, Profile: v1alpha1.Profile{SpecVersion: "0.5", Source: "https://c"}})
	}
	return out
}

type counts struct {
	mu        sync.Mutex
	conflicts int
	refused   int
	dropped   map[string]int64
}

func (c *counts) Refused()  { c.mu.Lock(); c.refused++; c.mu.Unlock() }
func (c *counts) Conflict() { c.mu.Lock(); c.conflicts++; c.mu.Unlock() }

func (c *counts) Dropped(reason string, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dropped == nil {
		c.dropped = map[string]int64{}
	}
	c.dropped[reason] += n
}

// leader leads for all objects, or for none.
type leader struct{ atomic.Bool }

func newLeader() *leader {
	l := &leader{}
	l.Store(true)
	return l
}

func (l *leader) IsLeaderFor(types.NamespacedName) bool { return l.Load() }

// deliveries is what a ledger said about the cart.
type deliveries struct {
	t        *testing.T
	enqueued []types.UID
	// leftOut are the sources that the last event was not journaled for.
	leftOut []types.UID
}

func (d *deliveries) Enqueue(k ledger.Key, source types.UID) {
	d.about(k)
	d.enqueued = append(d.enqueued, source)
}

func (d *deliveries) LeftOut(k ledger.Key, sources []types.UID) {
	d.about(k)
	d.leftOut = sources
}

func (d *deliveries) Refused(k ledger.Key, _ types.UID, _ ledger.Refusal) { d.about(k) }

func (d *deliveries) about(k ledger.Key) {
	if k != key {
		d.t.Errorf("called with %v", k)
	}
}

// add journals one more transition.
func add(l *ledger.Ledger, typ lifecycle.Type, pad string) error {
	return l.Journal(context.Background(), cart, func(current *v1alpha1.CDEventSubject) (*ledger.Change, error) {
		var m lifecycle.Memory
		if current != nil {
			if err := json.Unmarshal([]byte(current.Status.Memory), &m); err != nil {
				return nil, err
			}
		}
		m.Sequence++
		m.Removed = typ == lifecycle.Removed
		t := lifecycle.Transition{Sequence: m.Sequence, Time: noon.Add(time.Duration(m.Sequence) * time.Second), Type: typ, Reason: pad}
		return &ledger.Change{Memory: m, Transitions: []lifecycle.Transition{t}}, nil
	})
}

// event returns a pending event. If there is none of that number, it returns one that the journal does not have.
func event(l *ledger.Ledger, name string, source types.UID, sequence int64) ledger.Pending {
	for _, o := range l.All() {
		for _, p := range l.Pending(ledger.KeyOf(o.Spec), source) {
			if p.Name == name && p.Transition.Sequence == sequence {
				return p
			}
		}
	}
	return ledger.Pending{Name: name, Transition: lifecycle.Transition{Sequence: sequence}}
}

// acknowledge notes that a source has an event.
func acknowledge(l *ledger.Ledger, name string, source types.UID, sequence int64) {
	l.Acknowledge(event(l, name, source, sequence), source)
}

func run(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx, 4) }()
	t.Cleanup(func() { cancel(); <-done })
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 2000 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("not in time: " + what)
}

func sequences(pending []ledger.Pending) string {
	var out []string
	for _, o := range pending {
		out = append(out, fmt.Sprint(o.Transition.Sequence))
	}
	return strings.Join(out, " ")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
