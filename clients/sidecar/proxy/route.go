// SPDX-License-Identifier: Apache-2.0

//nolint:contextcheck // a visit does not end as its request does
package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/knative-cdevents/knative-cdevents/clients/placement"
	"github.com/knative-cdevents/knative-cdevents/clients/sidecar/member"
)

// route handles a request here if this member holds its shard, or else forwards it to the one that does. While the
// shard moves, it waits.
func (p *Proxy) route(r *http.Request, s *request) (*http.Response, error) {
	const longest = 50 * time.Millisecond
	m := p.o.Member
	deadline := s.begun.Add(p.o.Patience)
	ctx, cancel := context.WithDeadlineCause(r.Context(), deadline, p.impatient())
	defer cancel()
	address, version := m.Locate(s.shard)
	var last error
	var unreached reach
	for pause := time.Millisecond; ctx.Err() == nil; pause = min(2*pause, longest) {
		var reply placement.Reply
		if err := m.Refuses(); err != nil {
			return nil, &unavailableError{err}
		}
		switch address {
		case "":
			last = errors.New("no member can have the shard")
		case m.Address():
			var err error
			var visit *member.Visit
			visit, reply, err = p.admit(ctx, r.Context(), s, version)
			if visit != nil {
				return p.handle(r, s)
			}
			last = err
		default:
			asked := time.Now()
			resp, elsewhere, err := p.forward(r, s, address, version, deadline)
			if err == nil && elsewhere == nil {
				m.Remember(s.shard, address)
				return resp, nil
			}
			var sent *sentError
			if errors.As(err, &sent) {
				return nil, err
			}
			if last = unreached.since(address, asked, err); elsewhere != nil {
				reply = *elsewhere
			}
		}
		m.Remember(s.shard, reply.Holder)
		if address = reply.Holder; address == "" {
			p.o.Metrics.waited.Add(1)
			address, version = m.Locate(s.shard)
		} else {
			version = max(version, reply.Version)
		}
		wait := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-wait.C:
		}
		wait.Stop()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err //nolint:wrapcheck // the client's
	}
	if last == nil {
		last = errors.New("its shard is on its way to another member")
	}
	return nil, &unavailableError{last}
}

// impatient says why a request does not wait for its shard any longer.
func (p *Proxy) impatient() error {
	return fmt.Errorf("no member was ready for its shard within %s", p.o.Patience)
}

// reach is a member that a request could not be sent to, and since when.
type reach struct {
	address string
	begun   time.Time
}

// since returns an error that says for how long a member could not be reached. Nil: it answered.
func (u *reach) since(address string, asked time.Time, err error) error {
	if err == nil {
		*u = reach{}
		return nil
	}
	if u.address != address {
		*u = reach{address, asked}
	}
	return fmt.Errorf("member %s, which should have its shard, could not be reached for %s: %w", address,
		time.Since(u.begun).Round(time.Millisecond), err)
}

// admit begins a visit that ends with the request, and waits for it as long as ctx.
func (p *Proxy) admit(ctx, whole context.Context, s *request, version int64) (*member.Visit, placement.Reply, error) {
	// The visit must outlast the wait for it.
	visiting, cancel := context.WithCancelCause(whole)
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	visit, reply, err := p.o.Member.Admit(visiting, s.shard, version)
	if visit == nil || !stop() {
		stop()
		cancel(nil)
		if visit != nil {
			visit.End()
		}
		return nil, reply, err //nolint:wrapcheck // it is one of this module
	}
	s.visit = visit
	return visit, reply, nil
}
