// SPDX-License-Identifier: Apache-2.0

//nolint:contextcheck // a shard outlives the requests that it begins and ends with
package member

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/knative-cdevents/knative-cdevents/clients/placement"
)

// local is a shard that this member holds, or that is about to leave.
type local struct {
	version, epoch int64
	open           map[*Visit]struct{}
	// ready is closed after the application has acquired the shard; nil if there are no hooks.
	ready chan struct{}
	// problem of the application with the shard, once ready is closed, and acquired true.
	problem  error
	acquired bool
	// stopping: no further visit begins. finishing: none is open.
	stopping, finishing bool
}

// Visit is a request in a shard that this member holds.
type Visit struct {
	Version, Epoch int64

	member *Member
	shard  int
	local  *local
	ctx    context.Context //nolint:containedctx // the visit is what it is for
	cancel context.CancelCauseFunc
}

// Context ends with that of the request, and when the visit must end.
func (v *Visit) Context() context.Context { return v.ctx }

// Admit begins a visit of a shard, which the caller located by a plan of this version. Without a visit, the reply names
// the member to ask instead, if it is known. The caller must call End.
func (m *Member) Admit(ctx context.Context, shard int, version int64) (*Visit, placement.Reply, error) {
	if err := m.Refuses(); err != nil {
		return nil, placement.Reply{}, err
	}
	type result struct {
		visit *Visit
		reply placement.Reply
	}
	got := make(chan result, 1)
	visiting := ctx // nil after the caller has given up; guarded by the serial order
	m.Serial(func() {
		m.group.Enter(m.ID(shard), version, func(r placement.Reply) {
			if visiting == nil {
				return
			}
			out := result{reply: r}
			if r.Granted {
				out.visit = m.begin(visiting, shard, r)
			}
			got <- out
		})
	})
	select {
	case r := <-got:
		return m.admitted(r.visit, r.reply)
	default:
	}
	select {
	case r := <-got:
		return m.admitted(r.visit, r.reply)
	case <-ctx.Done():
		// The claim goes on, and keeps next to nothing of this request.
		m.Serial(func() { visiting = nil })
		select {
		case r := <-got:
			if r.visit != nil {
				r.visit.End()
			}
		default:
		}
		return nil, placement.Reply{}, context.Cause(ctx) //nolint:wrapcheck // the caller's
	}
}

func (m *Member) admitted(v *Visit, r placement.Reply) (*Visit, placement.Reply, error) {
	if v == nil {
		if r.Error != "" {
			return nil, r, errors.New(r.Error)
		}
		return nil, r, nil
	}
	if v.local.ready != nil {
		select {
		case <-v.local.ready:
			if err := v.local.problem; v.ctx.Err() == nil && err != nil {
				v.End()
				return nil, placement.Reply{}, fmt.Errorf("the application did not acquire shard %d: %w", v.shard, err)
			}
		case <-v.ctx.Done():
		}
	}
	if v.ctx.Err() != nil {
		v.End()
		return nil, placement.Reply{}, context.Cause(v.ctx) //nolint:wrapcheck // the caller's
	}
	return v, r, nil
}

// begin counts a visit. It runs in the serial order.
func (m *Member) begin(ctx context.Context, shard int, r placement.Reply) *Visit {
	_, version := m.group.Target(m.ID(shard))
	l := m.shards[shard]
	if l == nil {
		l = &local{version: version, epoch: r.Epoch, open: map[*Visit]struct{}{}}
		m.shards[shard] = l
		if m.options.Hooks != nil {
			l.ready = make(chan struct{})
			go m.acquire(shard, l)
		}
	}
	v := &Visit{Version: version, Epoch: r.Epoch, member: m, shard: shard, local: l}
	v.ctx, v.cancel = context.WithCancelCause(ctx)
	l.open[v] = struct{}{}
	return v
}

// acquire tells the application that it gets a shard. After an error, the next visit tries again.
func (m *Member) acquire(shard int, l *local) {
	ctx, cancel := context.WithTimeout(m.group.Running(), m.options.RequestTimeout)
	defer cancel()
	err := m.options.Hooks.Acquire(ctx, shard, l.version, l.epoch)
	m.Serial(func() {
		l.problem = err
		if err != nil && !l.stopping && m.shards[shard] == l {
			m.options.Log.Warn("the application did not acquire a shard", "shard", shard, "error", err)
			delete(m.shards, shard)
		}
		close(l.ready)
		l.acquired = true
		m.finish(shard, l)
	})
}

// End ends a visit. It may be called more than once.
func (v *Visit) End() {
	v.cancel(nil)
	v.member.Serial(func() {
		delete(v.local.open, v)
		v.member.finish(v.shard, v.local)
	})
}

// Open returns how many visits there are, over all shards.
func (m *Member) Open() (n int) {
	m.Serial(func() {
		for _, l := range m.shards {
			n += len(l.open)
		}
	})
	return n
}

// Active implements placement.Runtime. The application has a shard until it was told to release it.
func (m *Member) Active(id placement.ShardID) int {
	l := m.shards[id.Shard]
	switch {
	case l == nil:
		return 0
	case l.ready != nil:
		return len(l.open) + 1
	}
	return len(l.open)
}

// Stop implements placement.Runtime.
func (m *Member) Stop(id placement.ShardID) {
	l := m.shards[id.Shard]
	l.stopping = true
	if len(l.open) > 0 {
		time.AfterFunc(m.options.RequestTimeout, func() {
			m.Serial(func() { l.cut(errTooLong) })
		})
	}
	m.finish(id.Shard, l)
}

var errTooLong = errors.New("the shard leaves, and the request took longer than the request time-out")

func (l *local) cut(why error) {
	for v := range l.open {
		v.cancel(why)
	}
}

// cut ends all visits.
func (m *Member) cut(why error) {
	m.Serial(func() {
		for _, l := range m.shards {
			l.cut(why)
		}
	})
}

// finish ends a shard that is to leave, after its last visit. It runs in the serial order.
func (m *Member) finish(shard int, l *local) {
	if !l.stopping || l.finishing || len(l.open) > 0 || l.ready != nil && !l.acquired {
		return
	}
	l.finishing = true
	gone := func() {
		delete(m.shards, shard)
		m.group.Stopped(m.ID(shard))
	}
	if l.ready == nil || l.problem != nil {
		gone()
		return
	}
	m.releases.run("", func() {
		ctx, cancel := context.WithTimeout(context.Background(), m.options.RequestTimeout)
		defer cancel()
		if err := m.options.Hooks.Release(ctx, shard, l.version, l.epoch); err != nil {
			m.options.Log.Warn("the application did not release a shard; it moves all the same", "shard", shard, "error", err)
		}
		m.Serial(gone)
	})
}

// Shards returns the shards that this member holds, sorted.
func (m *Member) Shards(ctx context.Context) ([]int, error) {
	s, err := m.group.Status(ctx)
	if err != nil {
		return nil, err //nolint:wrapcheck // complete
	}
	return slices.Sorted(maps.Keys(s.Shards[m.options.Kind])), nil
}
