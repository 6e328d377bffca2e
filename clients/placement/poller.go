// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// Poller keeps the newest plan.
type Poller struct {
	source   *source
	settings Settings
	log      *slog.Logger
	changed  func(Known)

	mu    sync.Mutex
	known Known
}

// NewPoller returns a poller for complete settings. After each answer, it calls changed, which may be nil, in one
// goroutine.
func NewPoller(s Settings, changed func(Known)) (*Poller, error) {
	p := &Poller{settings: s, known: Known{settled: s.Disabled}, changed: changed}
	if p.changed == nil {
		p.changed = func(Known) {}
	}
	if s.Disabled {
		return p, nil
	}
	var err error
	p.source, err = newSource(s)
	return p, err
}

// Known returns what is known now.
func (p *Poller) Known() Known {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known
}

// Run asks for plans until the context ends.
func (p *Poller) Run(ctx context.Context, log *slog.Logger) {
	if p.source == nil {
		return
	}
	p.log = log
	failures, said := 0, ""
	registered := p.settings.Register == nil
	for {
		begun := time.Now()
		var a answer
		if registered {
			a = p.source.ask(ctx, p.Known())
		} else {
			a = p.source.register(ctx)
			registered = a.outcome == found
		}
		if ctx.Err() != nil {
			return
		}
		k := p.learn(a, begun)
		if now := describe(a, k); now != said {
			said = now
			level := slog.LevelInfo
			if a.outcome == failed || a.outcome == refused {
				level = slog.LevelWarn
			}
			p.log.Log(ctx, level, "placement: "+now)
		}
		if a.outcome == found || a.outcome == unchanged {
			failures = 0
		} else {
			failures++
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(p.pause(a, failures, time.Since(begun))):
		}
	}
}

// left tells the controller that this member, if it registered, holds nothing any more. The error says that the
// controller does not know it.
func (p *Poller) left(ctx context.Context) error {
	if p.source == nil || p.settings.Register == nil {
		return nil
	}
	for {
		a := p.source.member(ctx, http.MethodDelete)
		if a.outcome == found {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.New(cmp.Or(a.why, "the controller has no plan"))
		case <-time.After(p.settings.MinBackoff / 2):
		}
	}
}

// learn takes an answer to a request that was begun at a time.
func (p *Poller) learn(a answer, begun time.Time) Known {
	p.mu.Lock()
	p.known = p.known.after(a, begun, time.Now())
	k := p.known
	p.mu.Unlock()
	p.changed(k)
	return k
}

// pause returns the time until the next request: at once after a plan, because the server waits for us.
func (p *Poller) pause(a answer, failures int, took time.Duration) time.Duration {
	if failures == 0 {
		return max(0, min(p.settings.MinBackoff, 100*time.Millisecond)-took)
	}
	longest := min(p.settings.MaxBackoff, p.settings.MinBackoff<<min(failures-1, 20))
	if longest <= 0 {
		longest = p.settings.MaxBackoff
	}
	// Jitter, because all pods are told the same, and must not come back at the same moment.
	jitter := rand.N(longest/2 + 1) //nolint:gosec // not a secret
	return max(longest/2+jitter, a.retryAfter+jitter/2)
}

func describe(a answer, k Known) string {
	then := "; shards are placed evenly"
	if k.Follow() != nil {
		then = "; the last plan still says where shards without an owner go"
	}
	switch a.outcome {
	case failed, refused:
		return a.why + then
	case notEnabled:
		return "the Service has no annotation stateful.knative-cdevents.dev/placement" + then
	case found, unchanged:
	}
	if k.plan == nil {
		return "the controller's answer is older than the last plan"
	}
	if k.plan.Held != "" {
		return "the plan is in mode " + k.plan.Mode + ", held: " + k.plan.Held
	}
	return "the plan is in mode " + k.plan.Mode
}
