// SPDX-License-Identifier: Apache-2.0

// Package gatehttp serves the verdicts of gates that watch over HTTP, for clients without
// CustomRuns: Flagger's webhooks, and the web provider of Argo Rollouts.
//
// Its invariants:
//   - A client sees only the gates that it is allowed to get.
//   - Only a verdict on the current split promotes or rolls back. An unknown state does
//     neither.
//   - It reads from caches and writes nothing, so every replica can answer.
package gatehttp

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/reconciler/authserver"
)

// maxBody limits the size of a request body, and bodyWithin the time to read it.
// Flagger sends a few hundred bytes.
const (
	maxBody    = 64 << 10
	bodyWithin = 2 * time.Second
)

// busy limits concurrent requests. Excess requests are asked to retry.
const busy = 64

// Gates reads gates from a cache. gate.Gate implements it.
type Gates interface {
	// Synced reports whether all gates are known. Before that, they seem not to exist.
	Synced() bool
	Cached(key types.NamespacedName) (*v1alpha1.CanaryGate, error)
}

// Services are the watched Knative Services. servicestate.View implements it.
type Services interface {
	// Effective returns a Service with its traffic; nil if that is unknown or not in force.
	Effective(key types.NamespacedName) *gaterun.Service
}

// Guard checks whether the sender of a request may read the gate. The error is a
// *authserver.RefusedError, or explains why the check failed.
type Guard interface {
	Check(r *http.Request, gate types.NamespacedName) error
}

// Logger logs why a request could not be answered.
type Logger interface {
	Warnw(message string, keysAndValues ...any)
}

// Handler answers under /v1/gates/.
type Handler struct {
	Gates    Gates
	Services Services
	Guard    Guard
	Logger   Logger

	mux   http.ServeMux
	slots chan struct{}
}

// Init prepares the handler and returns it.
func (h *Handler) Init() *Handler {
	h.slots = make(chan struct{}, busy)
	h.mux.Handle("/v1/gates/{namespace}/{name}", h.answering(h.verdict, http.MethodGet, http.MethodHead, http.MethodPost))
	h.mux.Handle("/v1/gates/{namespace}/{name}/rollback", h.answering(h.rollback, http.MethodPost))
	h.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		authserver.Dismiss(w, http.StatusNotFound, "nothing is served at this path; use /v1/gates/{namespace}/{name}")
	})
	return h
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// answering handles what all requests have in common. It authorizes first: an unauthorized
// client must not cause reads, memory use or waiting.
func (h *Handler) answering(then func(http.ResponseWriter, *http.Request, Answer), methods ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(methods, r.Method) {
			allow := strings.Join(methods, ", ")
			w.Header().Set("Allow", allow)
			authserver.Dismiss(w, http.StatusMethodNotAllowed, r.Method+" is not allowed; use one of "+allow)
			return
		}
		unsplit, err := unsplitPasses(r)
		if err != nil {
			authserver.Dismiss(w, http.StatusBadRequest, err.Error())
			return
		}
		key := types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
		if len(validation.IsDNS1123Label(key.Namespace)) > 0 || len(validation.IsDNS1123Subdomain(key.Name)) > 0 {
			authserver.Dismiss(w, http.StatusNotFound, key.String()+" is not a valid name of a CanaryGate")
			return
		}
		if !h.allowed(w, r, key) {
			return
		}
		authserver.Authorized(r.Context())
		if !drained(w, r) {
			return
		}
		select {
		case h.slots <- struct{}{}:
			defer func() { <-h.slots }()
		default:
			w.Header().Set("Retry-After", "1")
			authserver.Refuse(w, http.StatusServiceUnavailable, "too many requests at once; try again")
			return
		}
		if answer, ok := h.about(w, key, unsplit); ok {
			then(w, r, answer)
		}
	})
}

// drained reads and discards the body.
func drained(w http.ResponseWriter, r *http.Request) bool {
	// Ignore the error: without a connection, as in a test, there is no deadline.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyWithin))
	_, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		return true
	}
	status := http.StatusBadRequest
	if over := (*http.MaxBytesError)(nil); errors.As(err, &over) {
		status = http.StatusRequestEntityTooLarge
	}
	authserver.Dismiss(w, status,
		fmt.Sprintf("the body cannot be read; it is not needed, and may have at most %d bytes: %v", maxBody, err))
	return false
}

// unsplitPasses parses the only query parameter.
func unsplitPasses(r *http.Request) (bool, error) {
	const parameter, value = "unsplit", "pass"
	passes := false
	given, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return false, fmt.Errorf("the query cannot be read (%w); the only parameter is %s=%s", err, parameter, value)
	}
	for name, values := range given {
		if name != parameter || len(values) != 1 || values[0] != value {
			return false, fmt.Errorf("%s=%s is not a parameter; the only parameter is %s=%s", name, strings.Join(values, ","),
				parameter, value)
		}
		passes = true
	}
	return passes, nil
}

func (h *Handler) allowed(w http.ResponseWriter, r *http.Request, key types.NamespacedName) bool {
	err := h.Guard.Check(r, key)
	if err == nil {
		return true
	}
	if !authserver.DismissRefused(w, err, `Bearer realm="`+Audience+`", Basic realm="`+Audience+`"`) {
		h.Logger.Warnw("Could not authorize a request for a verdict", "gate", key, "error", err)
		authserver.DismissForNow(w, "the API server could not check your access; try again")
	}
	return false
}

// about reads the gate and returns the answer.
func (h *Handler) about(w http.ResponseWriter, key types.NamespacedName, unsplit bool) (Answer, bool) {
	if !h.Gates.Synced() {
		w.Header().Set("Retry-After", "1")
		authserver.Refuse(w, http.StatusServiceUnavailable,
			"this replica has just started and does not know the gates yet; try again")
		return Answer{}, false
	}
	gate, err := h.Gates.Cached(key)
	switch {
	case apierrors.IsNotFound(err):
		authserver.Refuse(w, http.StatusNotFound, "CanaryGate "+key.String()+" does not exist")
	case err != nil:
		h.Logger.Warnw("A gate could not be read", "gate", key, "error", err)
		authserver.Refuse(w, http.StatusServiceUnavailable, "the gate could not be read; try again")
	case !gate.Spec.Watch:
		authserver.Refuse(w, http.StatusUnprocessableEntity, fmt.Sprintf(
			"CanaryGate %s does not start runs itself; set spec.watch to true, or refer to the gate from a Tekton CustomRun and read its results",
			key,
		))
	default:
		service := h.Services.Effective(types.NamespacedName{Namespace: key.Namespace, Name: gate.Spec.Service})
		return answer(gate, service, unsplit), true
	}
	return Answer{}, false
}

// verdict puts the verdict into the body for GET, and into the status for POST.
func (h *Handler) verdict(w http.ResponseWriter, r *http.Request, a Answer) {
	status := http.StatusOK
	if r.Method == http.MethodPost {
		status = a.status()
	}
	authserver.WriteJSON(w, status, a)
}

// rollback is the inverse of verdict: 200 requests a rollback.
func (h *Handler) rollback(w http.ResponseWriter, _ *http.Request, a Answer) {
	status := http.StatusConflict
	if a.Verdict == verdict.Fail {
		status = http.StatusOK
	}
	authserver.WriteJSON(w, status, a)
}
