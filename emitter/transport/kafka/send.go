// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
)

// Send implements transport.Transport.
func (c *Clients) Send(
	ctx context.Context, to transport.Target, ev event.Event, with transport.Policy,
) transport.Outcome {
	out := c.attempt(ctx, to, ev, with)
	if out.Err != nil {
		out.Err = fmt.Errorf("sending to %s: %w", to, out.Err)
	}
	return out
}

func (c *Clients) attempt(
	ctx context.Context, to transport.Target, ev event.Event, with transport.Policy,
) transport.Outcome {
	ctx, cancel := context.WithTimeout(ctx, with.AttemptTimeout())
	defer cancel()
	uri, err := url.Parse(to.URL)
	if err != nil {
		return transport.Outcome{Class: transport.Retry, Err: errors.New("the sink's URI cannot be used")}
	}
	at, err := parse(uri)
	if err != nil {
		// The source is wrong, not the event.
		return transport.Outcome{Class: transport.Retry, Err: fmt.Errorf("the sink's URI cannot be used: %w", err)}
	}
	record, err := encode(ev, at.topic, with.Mode)
	if err != nil {
		return transport.Outcome{Class: transport.Poison, Err: err}
	}
	for _, host := range at.hosts {
		if err := c.access.Addresses.Permit(host); err != nil {
			return transport.Outcome{Class: transport.Unauthorized, Err: err}
		}
	}
	values, err := c.access.Credentials.For(ctx, to.Credentials, uri)
	if err != nil {
		return transport.Outcome{
			Class: transport.Unauthorized,
			Err:   fmt.Errorf("the event is kept until its credentials are available: %w", err),
		}
	}
	client, err := c.use(to, at, values)
	if err != nil {
		return transport.Outcome{Class: transport.Retry, Err: err}
	}
	defer client.release()
	if err := client.send(ctx, record); err != nil {
		client.note(false)
		if failure := client.dialer.lastFailure(); failure != nil && errors.Is(err, context.DeadlineExceeded) {
			err = failure
		}
		out := classify(err, with.AttemptTimeout())
		if out.Class == transport.Unauthorized {
			c.access.Credentials.Rejected(to.Credentials, values)
		}
		return out
	}
	return transport.Outcome{Class: transport.Acknowledged, Status: http.StatusOK}
}

// sending is a record on its way.
type sending struct {
	// done is closed when there is an answer, and err is the answer.
	done chan struct{}
	err  error
}

// send makes the brokers write a record, or returns why they did not until ctx ended.
func (c *client) send(ctx context.Context, r *kgo.Record) error {
	id := digestOf(r)
	for {
		s, before := c.unanswered(id)
		if !before {
			if err := c.check(ctx); err != nil {
				return err
			}
			s = c.produce(ctx, r)
		}
		select {
		case <-s.done:
		case <-ctx.Done():
			c.keep(id, s)
			return ctx.Err() //nolint:wrapcheck // explained by the caller
		}
		// A record that was not sent fails with its own attempt, or with another one of its partition before it.
		ended := errors.Is(s.err, context.DeadlineExceeded) || errors.Is(s.err, context.Canceled)
		if s.err == nil || ctx.Err() != nil || !ended {
			return s.err
		}
	}
}

func (c *client) produce(ctx context.Context, r *kgo.Record) *sending {
	s := &sending{done: make(chan struct{})}
	c.TryProduce(ctx, r, func(_ *kgo.Record, err error) {
		s.err = err
		close(s.done)
	})
	return s
}

// unanswered returns the same record from an earlier attempt, which may have been written.
func (c *client) unanswered(id digest) (*sending, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.open[id]
	delete(c.open, id)
	return s, ok
}

// keep stores a record until the broker answers. There are few: the client refuses more than maxBuffered. Records that
// are answered, and for which no attempt is made again, are removed first.
func (c *client) keep(id digest, s *sending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) >= maxBuffered {
		for other, o := range c.open {
			select {
			case <-o.done:
				delete(c.open, other)
			default:
			}
		}
	}
	c.open[id] = s
}
