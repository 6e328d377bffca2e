// SPDX-License-Identifier: Apache-2.0

package protoactor

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// poller keeps the newest plan.
type poller struct {
	source   *source
	settings Settings
	log      *slog.Logger

	mu    sync.Mutex
	known known
}

func (p *poller) now() known {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known
}

// run asks for plans until the context ends.
func (p *poller) run(ctx context.Context) {
	failures, said := 0, ""
	for {
		begun := time.Now()
		a := p.source.ask(ctx, p.now())
		if ctx.Err() != nil {
			return
		}
		p.mu.Lock()
		p.known = p.known.after(a, time.Now())
		k := p.known
		p.mu.Unlock()
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

// pause returns the time until the next request: at once after a plan, because the server waits for us.
func (p *poller) pause(a answer, failures int, took time.Duration) time.Duration {
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

func describe(a answer, k known) string {
	then := "; shards are placed evenly"
	if k.follow() != nil {
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
