// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"go.uber.org/zap"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/reconciler/authserver"
	"github.com/knative-cdevents/knative-cdevents/reconciler/oneshot"
)

const (
	// DefaultWithin is less than the doorbell waits for an answer, by the time that a core needs to start.
	DefaultWithin = 45 * time.Second
	// DefaultAtOnce is twice as many rings as a doorbell has under way.
	DefaultAtOnce = 8
	// patience is how long a ring waits while as many are answered as may be at once.
	patience = 5 * time.Second
	// answerWithin is how long it may take to send an answer.
	answerWithin = 5 * time.Second
	// retryAfter, in seconds, is when to ring again.
	retryAfter = "1"
	// sweepWithin limits a sweep, whoever waits for it.
	sweepWithin = time.Hour
	// healthPath is for probes, and metricsPath for Prometheus. Rings are accepted at every other path.
	healthPath  = "/healthz"
	metricsPath = "/metrics"
)

// Core answers rings. oneshot.Core implements it.
type Core interface {
	Changed(ctx context.Context, o oneshot.Reference) error
	Sweep(ctx context.Context) error
}

// Guard checks whether the sender of a request may ring. The error is a *authserver.RefusedError, or explains why the
// check failed.
type Guard interface {
	Check(r *http.Request) error
}

// Handler receives rings.
type Handler struct {
	Core   Core
	Guard  Guard
	Logger *zap.SugaredLogger
	// Within is how long an answer may take; 0 for DefaultWithin.
	Within time.Duration
	// AtOnce is how many rings are answered at once, apart from the sweep; 0 for DefaultAtOnce.
	AtOnce int
	// Instruments count rings; nil: nothing does.
	Instruments *Instruments
	// Metrics answers who asks for metrics; nil: nobody does.
	Metrics http.Handler

	slots   chan struct{}
	sweeper sweeper

	mu      sync.Mutex
	closing chan struct{}
	running sync.WaitGroup
}

// Init prepares the handler and returns it.
func (h *Handler) Init() *Handler {
	h.Within, h.AtOnce = cmp.Or(h.Within, DefaultWithin), cmp.Or(h.AtOnce, DefaultAtOnce)
	h.slots, h.closing = make(chan struct{}, h.AtOnce), make(chan struct{})
	return h
}

// Reasons not to answer for now.
var (
	errBusy    = errors.New("too many rings are being answered; ring again")
	errClosing = errors.New("this core ends; ring again")
	errSlow    = errors.New("the answer takes too long; ring again, for what is done until then need not be done again")
	errPanic   = errors.New("this is a defect of the core, whose log has more")
)

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == healthPath {
		h.health(w)
		return
	}
	if r.URL.Path == metricsPath && r.Method == http.MethodGet && h.Metrics != nil {
		h.Metrics.ServeHTTP(w, r)
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		authserver.Dismiss(w, http.StatusMethodNotAllowed, r.Method+" is not allowed; a ring is a CloudEvent that is sent with POST")
		return
	}
	if err := h.Guard.Check(r); err != nil {
		if !authserver.DismissRefused(w, err, "Bearer") {
			h.Logger.Warnw("Could not authenticate the sender of a ring", "error", err)
			authserver.DismissForNow(w, "the API server could not check your token; ring again")
		}
		return
	}
	authserver.Authorized(r.Context())
	began := time.Now()
	asked, wrong := read(w, r)
	if wrong != nil {
		h.Logger.Warnw("A ring can never be answered", "status", wrong.Status, "error", wrong)
		authserver.Dismiss(w, wrong.Status, wrong.Message)
		h.Instruments.count(r.Context(), change, refused, time.Since(began))
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(h.Within + answerWithin))
	ctx, cancel := context.WithTimeoutCause(logging.WithLogger(r.Context(), h.Logger), h.Within, errSlow)
	defer cancel()
	result := h.answer(w, asked, h.ring(ctx, asked))
	h.Instruments.count(ctx, asked.kind(), result, time.Since(began))
}

// health says whether rings are answered.
func (h *Handler) health(w http.ResponseWriter) {
	select {
	case <-h.closing:
		authserver.Refuse(w, http.StatusServiceUnavailable, errClosing.Error())
	default:
		_, _ = w.Write([]byte("ok\n")) // the client has disconnected
	}
}

// answer sends what came of a ring, and returns it for the metrics.
func (h *Handler) answer(w http.ResponseWriter, asked ring, err error) (result string) {
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
		return answered
	}
	status, result := http.StatusServiceUnavailable, failed
	if never := (*oneshot.NotFollowedError)(nil); errors.As(err, &never) {
		status, result = http.StatusUnprocessableEntity, refused
	} else {
		w.Header().Set("Retry-After", retryAfter)
	}
	h.Logger.Warnw("A ring was not answered", "ring", asked.String(), "status", status, "error", err)
	authserver.Refuse(w, status, err.Error())
	return result
}

// ring has the core do what is asked for.
func (h *Handler) ring(ctx context.Context, asked ring) error {
	if asked.object == nil {
		return h.sweeper.do(ctx, func(end func(error)) error {
			// It goes on when its sender does not wait any more, and ends with the process.
			ctx := context.WithoutCancel(ctx)
			return h.begin(func() {
				ctx, cancel := context.WithTimeoutCause(ctx, sweepWithin, errSlow)
				defer cancel()
				end(h.protect(func() error { return h.Core.Sweep(h.untilClosed(ctx)) }))
			})
		})
	}
	if err := h.enter(ctx); err != nil {
		return err
	}
	done := make(chan error, 1)
	err := h.begin(func() {
		defer func() { <-h.slots }()
		done <- h.protect(func() error { return h.Core.Changed(ctx, *asked.object) })
	})
	if err != nil {
		<-h.slots
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// untilClosed returns a context that ends with the given one, which must end, or when no ring is answered any more.
func (h *Handler) untilClosed(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-h.closing:
		case <-ctx.Done():
		}
		cancel(errClosing)
	}()
	return ctx
}

// enter waits for a slot.
func (h *Handler) enter(ctx context.Context) error {
	select {
	case h.slots <- struct{}{}:
		return nil
	default:
	}
	wait := time.NewTimer(min(patience, h.Within))
	defer wait.Stop()
	select {
	case h.slots <- struct{}{}:
		return nil
	case <-wait.C:
		return errBusy
	case <-h.closing:
		return errClosing
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// begin starts work that Close waits for.
func (h *Handler) begin(work func()) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.closing:
		return errClosing
	default:
		h.running.Go(work)
		return nil
	}
}

// protect calls a function that must not end the process, as net/http does for the goroutine of a request.
func (h *Handler) protect(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			h.Logger.Errorw("The core panicked", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("answering a ring: %w", errPanic)
		}
	}()
	return f()
}

// Close refuses further rings, ends a sweep, and waits until what has begun is done, or the context ends.
func (h *Handler) Close(ctx context.Context) error {
	h.mu.Lock()
	close(h.closing)
	h.mu.Unlock()
	done := make(chan struct{})
	go func() { h.running.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for what is not answered yet: %w", context.Cause(ctx))
	}
}
