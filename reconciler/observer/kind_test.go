// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/journal"
)

// plain is a kind with one part, whose value is the snapshot. It also implements the work
// queue and a router.
type plain struct {
	journal.Unread

	live    types.UID
	created time.Time
	rules   lifecycle.Rules
	// behind says that the API server has another state than the caches, unreachable that it does not answer. asked
	// counts the questions.
	behind      bool
	unreachable error
	asked       int
	// remains says that the end of an object must wait for something else.
	remains bool
}

// leading returns an observer of a kind that leads for all objects, since one second after 1970 began.
func leading(t *testing.T, kind *plain, l *ledger.Ledger, now func() time.Time) *Observer {
	t.Helper()
	o := New(Options{
		Kind: kind, Ledger: l, Now: now,
		Since: func(context.Context) (time.Time, error) { return time.Unix(1, 0), nil },
	})
	o.Bind(kind)
	if err := o.Promote(reconciler.UniversalBucket(), func(reconciler.Bucket, types.NamespacedName) {}); err != nil {
		t.Fatal(err)
	}
	o.Start()
	return o
}

func (*plain) APIVersion() string                                              { return "v1" }
func (*plain) Name() string                                                    { return "Service" }
func (*plain) Served() bool                                                    { return true }
func (*plain) Keys() []types.NamespacedName                                    { return nil }
func (*plain) Cached(types.NamespacedName) Parts                               { return nil }
func (p *plain) Live(context.Context, types.NamespacedName) (types.UID, error) { return p.live, nil }
func (*plain) Position() string                                                { return "" }

func (p *plain) Current(context.Context, types.NamespacedName, Parts, time.Time) (bool, error) {
	p.asked++
	return !p.behind, p.unreachable
}

func (p *plain) Object(parts Parts) *Object {
	root := parts["service"]
	if _, ok := root.Value.(lifecycle.Snapshot); !ok {
		return nil
	}
	return &Object{UID: root.Owner, Created: p.created}
}

func (p *plain) Recall(stored []byte) (Memory, error) {
	m := remembered{kind: p}
	if len(stored) == 0 {
		return m, nil
	}
	err := json.Unmarshal(stored, &m.Memory)
	return m, err
}

// remembered folds snapshots by the rules for Services.
type remembered struct {
	lifecycle.Memory
	kind *plain
}

func (m remembered) Next(_ context.Context, s Step) (Result, error) {
	root := s.Parts["service"]
	snapshot, _ := root.Value.(lifecycle.Snapshot)
	if Older(root.Version, m.Versions[lifecycle.ObjectService]) {
		return Result{}, nil
	}
	snapshot.Unconfirmed = s.Unconfirmed
	snapshot.Versions = map[string]string{lifecycle.ObjectService: root.Version}
	if s.Baseline {
		return m.result(lifecycle.Baseline(snapshot)), nil
	}
	return m.result(lifecycle.Next(m.kind.rules, m.Memory, snapshot, s.At)), nil
}

func (m remembered) result(r lifecycle.Result) Result {
	return Result{
		Memory: remembered{Memory: r.Memory, kind: m.kind}, Transitions: r.Transitions, Save: r.Memory.MustSave(m.Memory),
		Wake: r.WakeAt, Wait: len(r.Missing) > 0, Unsure: r.Unsure,
	}
}

func (m remembered) End(_ context.Context, at time.Time) (Result, error) {
	r := m.result(lifecycle.Next(m.kind.rules, m.Memory, lifecycle.Snapshot{Gone: true}, at))
	if m.kind.remains {
		r = Result{Memory: m, Wait: true}
	}
	return r, nil
}

func (m remembered) Replay(at time.Time) Result { return m.result(lifecycle.Replay(m.Memory, at)) }

func (m remembered) Covers(other Memory) bool {
	o, ok := other.(remembered)
	return ok && m.Memory.Covers(o.Memory)
}
func (m remembered) Waits() map[lifecycle.Wait]time.Time { return m.Memory.Waits }
func (m remembered) Waiting(w map[lifecycle.Wait]time.Time) Memory {
	m.Memory.Waits = w
	return m
}
func (remembered) Conditions() []metav1.Condition { return nil }

func (*plain) EnqueueKey(types.NamespacedName)     {}
func (*plain) EnqueueSlowKey(types.NamespacedName) {}
