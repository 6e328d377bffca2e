// SPDX-License-Identifier: Apache-2.0

// Package web serves plans over HTTP to the members of the clusters that they are for.
//
// Its invariants:
//   - Only a live pod of a Service reads the plan of that Service.
//   - Plans come from caches, so every replica can answer. What members say is stored by compare-and-swap.
package web

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/reconciler/authserver"
	"github.com/knative-cdevents/knative-cdevents/reconciler/pods"
)

// Path is where a plan is served.
const Path = "/v1/namespaces/{namespace}/services/{service}/placement"

// Limits of a request that waits for a change.
const (
	shortestWait, longestWait = time.Second, time.Minute
	// heartbeat is how often a stream says that it lives, and checks that its pod may still read.
	heartbeat = 15 * time.Second
	// writeWithin is how long a client may take to receive an answer.
	writeWithin = 10 * time.Second
	// maxWaiting leaves connections for requests that do not wait, and maxWaitingPod for other pods. A client waits with
	// one request, and may begin the next before this replica knows that it gave up the last.
	maxWaiting    = authserver.MaxConnected - 128
	maxWaitingPod = 4
)

// Reasons of a 404, for clients.
const (
	// NotEnabled: the newest Revision with pods asks for no plan. The runtime places shards as it does without one.
	NotEnabled = "NotEnabled"
	// NoPlanYet: the plan is not made yet.
	NoPlanYet = "NoPlanYet"
)

// Guard returns the pod that sends a request, if it is a live pod of the Service. The error is a
// *authserver.RefusedError, or explains why the check failed.
type Guard interface {
	// Synced reports whether all pods are known.
	Synced() bool
	Check(r *http.Request, service types.NamespacedName) (*pods.Pod, error)
	// Declared returns what the newest Revision that has pods declares, and its name.
	Declared(ctx context.Context, service types.NamespacedName, uid types.UID) (mode v1alpha1.PlacementMode,
		revision string, err error)
}

// Logger logs why a request could not be answered.
type Logger interface {
	Warnw(message string, keysAndValues ...any)
}

// Handler serves plans.
type Handler struct {
	Plans  *Plans
	Guard  Guard
	Logger Logger
	// Stopping ends requests that wait.
	Stopping <-chan struct{}

	// waiting are the requests that wait for a change.
	waiting waiting
}

// waiting counts requests that wait, by UID of the pod; all is their sum.
type waiting struct {
	mu    sync.Mutex
	byPod map[types.UID]int
	all   int
}

// enter reports whether a request of a pod may wait. If so, the caller must call leave.
func (w *waiting) enter(pod types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all >= maxWaiting || w.byPod[pod] >= maxWaitingPod {
		return false
	}
	if w.byPod == nil {
		w.byPod = map[types.UID]int{}
	}
	w.all++
	w.byPod[pod]++
	return true
}

func (w *waiting) leave(pod types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all--
	if w.byPod[pod]--; w.byPod[pod] <= 0 {
		delete(w.byPod, pod)
	}
}

// ServeHTTP implements http.Handler. The path is Path.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		authserver.Dismiss(w, http.StatusMethodNotAllowed, r.Method+" is not allowed; use one of GET, HEAD")
		return
	}
	wait, err := waitOf(r)
	if err != nil {
		authserver.Dismiss(w, http.StatusBadRequest, err.Error())
		return
	}
	key, valid := serviceOf(w, r)
	if !valid {
		return
	}
	// A client that is refused stops to move shards, so nothing is refused before all pods are known.
	if !h.Plans.Synced() || !h.Guard.Synced() {
		authserver.DismissForNow(w, "this replica has just started and does not know the plans and pods yet; try again")
		return
	}
	pod := h.allowed(w, r, key)
	if pod == nil {
		return
	}
	authserver.Authorized(r.Context())
	stream := r.Method == http.MethodGet && accepts(r, "text/event-stream")
	if stream || wait > 0 {
		if !h.waiting.enter(pod.UID) {
			authserver.DismissForNow(w, "too many requests wait for a change; try again")
			return
		}
		defer h.waiting.leave(pod.UID)
	}
	if stream {
		h.stream(w, r, key, pod)
		return
	}
	h.answer(w, r, key, pod, wait)
}

// serviceOf returns the Service that a path names, or dismisses the request.
func serviceOf(w http.ResponseWriter, r *http.Request) (key types.NamespacedName, valid bool) {
	key = types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("service")}
	valid = len(validation.IsDNS1123Label(key.Namespace)) == 0 && len(validation.IsDNS1035Label(key.Name)) == 0
	if !valid {
		authserver.Dismiss(w, http.StatusNotFound, key.String()+" is not a valid name of a Service")
	}
	return key, valid
}

// waitOf returns how long the client waits for a change.
func waitOf(r *http.Request) (wait time.Duration, err error) {
	for name, values := range r.URL.Query() {
		wait, err = time.ParseDuration(values[0])
		if name != "wait" || len(values) != 1 || err != nil || wait < shortestWait || wait > longestWait {
			return 0, fmt.Errorf("%s=%s is not a parameter; the only parameter is wait, from %s to %s, such as wait=30s", name,
				strings.Join(values, ","), shortestWait, longestWait)
		}
	}
	return wait, nil
}

func (h *Handler) allowed(w http.ResponseWriter, r *http.Request, key types.NamespacedName) *pods.Pod {
	pod, err := h.Guard.Check(r, key)
	if err == nil {
		return pod
	}
	if !authserver.DismissRefused(w, err, `Bearer realm="`+Audience+`"`) {
		h.Logger.Warnw("Could not authorize a request for a placement", "service", key, "error", err)
		authserver.DismissForNow(w, "the API server could not check your access; try again")
	}
	return nil
}

// answer sends the plan, at once or as soon as it is another one than the client has.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, key types.NamespacedName, pod *pods.Pod,
	wait time.Duration,
) {
	until := time.NewTimer(wait)
	defer until.Stop()
	// Ignore the error: without a connection, as in a test, there is no deadline.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wait + writeWithin))
	for {
		plan, changed := h.Plans.Of(pod.ServiceUID)
		if plan == nil {
			w.Header().Del("ETag")
			h.none(w, r, key, pod)
			return
		}
		w.Header().Set("ETag", etag(plan))
		if !has(r, plan) {
			h.send(w, plan)
			return
		}
		select {
		case <-changed:
			continue
		case <-until.C:
		case <-h.Stopping:
		case <-r.Context().Done():
			return
		}
		w.WriteHeader(http.StatusNotModified)
		return
	}
}

// has reports whether the client has the plan already. A proxy that compresses answers makes their tags weak.
func has(r *http.Request, plan *v1alpha1.ShardPlacement) bool {
	for tag := range strings.SplitSeq(strings.Join(r.Header.Values("If-None-Match"), ","), ",") {
		if tag = strings.TrimSpace(tag); tag == "*" || strings.TrimPrefix(tag, "W/") == etag(plan) {
			return true
		}
	}
	return false
}

// send answers with the plan.
func (h *Handler) send(w http.ResponseWriter, plan *v1alpha1.ShardPlacement) {
	body, err := h.Plans.encoded(plan)
	if err != nil {
		h.Logger.Warnw("A plan could not be encoded", "plan", plan.Name, "error", err)
		authserver.Refuse(w, http.StatusInternalServerError, "the plan could not be encoded")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	// The client has disconnected, so the error cannot be sent.
	_, _ = w.Write(body) //nolint:gosec // JSON, and said to be
}

// none says that there is no plan, and what the client should do.
func (h *Handler) none(w http.ResponseWriter, r *http.Request, key types.NamespacedName, pod *pods.Pod) {
	mode, revision, err := h.Guard.Declared(r.Context(), key, pod.ServiceUID)
	if err != nil {
		h.Logger.Warnw("Could not find out whether a Service asks for a placement", "service", key, "error", err)
		authserver.DismissForNow(w, "the API server could not be asked; try again")
		return
	}
	reason, message := NoPlanYet, "the plan is not made yet; the controller first asks all members where the shards are"
	if mode == "" {
		reason = NotEnabled
		message = "no Revision with pods declares a stateful cluster; set the annotations " + v1alpha1.StatefulPrefix +
			"… in the template"
		if revision != "" {
			message = "the template of Revision " + revision +
				", the newest one with pods, asks for no plan; set its annotation " + v1alpha1.AnnotationPlacement +
				" to enforce or observe"
		}
	}
	authserver.WriteJSON(w, http.StatusNotFound, map[string]string{"error": message, "reason": reason})
}

// stream sends the plan, and each one that follows, until there is none, or the pod may not read it any more.
func (h *Handler) stream(w http.ResponseWriter, r *http.Request, key types.NamespacedName, pod *pods.Pod) {
	control := http.NewResponseController(w)
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	sent := int64(-1)
	for alive := false; ; {
		plan, changed := h.Plans.Of(pod.ServiceUID)
		if plan == nil {
			if sent < 0 {
				h.none(w, r, key, pod)
			}
			return
		}
		var parts [][]byte
		switch {
		case plan.Status.Version != sent:
			body, err := h.Plans.encoded(plan)
			if err != nil {
				h.Logger.Warnw("A plan could not be encoded", "service", key, "error", err)
				return
			}
			sent = plan.Status.Version
			parts = [][]byte{fmt.Appendf(nil, "event: placement\nid: %d\ndata: ", sent), body, []byte("\n\n")}
		case alive:
			parts = [][]byte{[]byte(":\n\n")}
		}
		if len(parts) > 0 {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Cache-Control", "no-store")
			_ = control.SetWriteDeadline(time.Now().Add(writeWithin))
		}
		for _, part := range parts {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
		if err := control.Flush(); err != nil {
			return
		}
		select {
		case <-changed:
			alive = false
		case <-beat.C:
			if again, err := h.Guard.Check(r, key); err != nil || again.UID != pod.UID {
				return
			}
			alive = true
		case <-h.Stopping:
			return
		case <-r.Context().Done():
			return
		}
	}
}

func accepts(r *http.Request, kind string) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		if name, _, _ := strings.Cut(part, ";"); strings.TrimSpace(name) == kind {
			return true
		}
	}
	return false
}

func etag(plan *v1alpha1.ShardPlacement) string {
	return strconv.Quote(strconv.FormatInt(plan.Status.Version, 10))
}
