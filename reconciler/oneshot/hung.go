// SPDX-License-Identifier: Apache-2.0

package oneshot

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
)

const (
	// A source whose sink hangs is sent nothing for firstPause, doubled each time that it hangs again, to lastPause.
	firstPause = 10 * time.Second
	lastPause  = 5 * time.Minute
	// hangsAfter is the part of the longest time of an attempt after which one that fails has hung.
	hangsAfter = 4
)

// hung are the sources whose sinks hang: an attempt takes as long as a look may, and few looks are made at once. So one
// look at a time tries, and the others leave their events for later: a sink affects only its own source. Whoever does
// not know it, because it has just started, finds out with an attempt. Its zero value is ready.
type hung struct {
	mu      sync.Mutex
	sources map[types.UID]*spell
}

// spell is a time in which the sink of a source hangs.
type spell struct {
	// of is what is sent where: another spec, or another address, is not to blame.
	of      string
	until   time.Time
	pause   time.Duration
	probing bool
}

func sentTo(s *v1alpha1.CDEventSource) string { return fmt.Sprint(s.Generation, " ", s.Status.SinkURI) }

// spared reports until when a source is sent nothing. If it is not spared, the caller tries, and then calls tried.
func (h *hung) spared(s *v1alpha1.CDEventSource, now time.Time) (until time.Time, is bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.sources[s.UID]
	switch {
	case known == nil:
		return until, false
	case known.of != sentTo(s):
		delete(h.sources, s.UID)
		return until, false
	case known.probing || now.Before(known.until):
		return known.until, true
	}
	known.probing, known.until = true, now.Add(known.pause)
	return until, false
}

// tried notes what came of a look's attempts: whether one hung, if any were made.
func (h *hung) tried(s *v1alpha1.CDEventSource, hangs, made bool, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.sources[s.UID]
	switch {
	case hangs && known == nil:
		if h.sources == nil {
			h.sources = map[types.UID]*spell{}
		}
		h.sources[s.UID] = &spell{of: sentTo(s), until: now.Add(firstPause), pause: firstPause}
	case known == nil || hangs && !known.probing:
		// It is known, or another look began before it was.
	case hangs:
		known.probing, known.pause = false, min(2*known.pause, lastPause)
		known.until = now.Add(known.pause)
	case made:
		delete(h.sources, s.UID)
	default:
		known.probing, known.until = false, now
	}
}

// forget drops what is known of a source that is gone.
func (h *hung) forget(source types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.sources, source)
}

// bounded is the Transport of one look. An attempt ends within the look: otherwise it would never count as one.
type bounded struct {
	transport.Transport
	most time.Duration

	mu sync.Mutex
	// hangs are the sources for which attempts were made, and whether one hung.
	hangs map[types.UID]bool
}

// Send implements transport.Transport.
func (b *bounded) Send(ctx context.Context, to transport.Target, ev event.Event, with transport.Policy,
) transport.Outcome {
	with.Timeout = min(with.AttemptTimeout(), b.most)
	began := time.Now()
	out := b.Transport.Send(ctx, to, ev, with)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hangs[to.Source] = b.hangs[to.Source] || out.Class != transport.Acknowledged && time.Since(began) > b.most/hangsAfter
	return out
}

// of reports whether an attempt for a source hung, and whether any was made.
func (b *bounded) of(source types.UID) (hangs, made bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	hangs, made = b.hangs[source]
	return hangs, made
}
