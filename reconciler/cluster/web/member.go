// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/reconciler/authserver"
	"github.com/knative-cdevents/knative-cdevents/reconciler/pods"
)

// MemberPath is where a member registers.
const MemberPath = Path + "/member"

const (
	// registerWithin is how long a registration may take, and maxRegistration how large it may be.
	registerWithin  = 8 * time.Second
	maxRegistration = 1 << 10
)

// Registrar stores members. cluster.Registrar implements it.
type Registrar interface {
	Register(ctx context.Context, service types.NamespacedName, pod *pods.Pod, address, pin string) (
		*v1alpha1.ShardPlacement, error)
	Leave(ctx context.Context, service types.NamespacedName, pod *pods.Pod, pin string) (*v1alpha1.ShardPlacement, error)
}

// Registration serves MemberPath. By PUT, a live pod of a Service registers the process that speaks for it. By DELETE,
// that process says that it holds no shard any more. The answer is the plan, with all members that registered before.
type Registration struct {
	Guard     Guard
	Registrar Registrar
	Logger    Logger

	// waiting are the requests that are being stored, or wait for others of their Service.
	waiting waiting
}

// ServeHTTP implements http.Handler.
func (g *Registration) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPut && r.Method != http.MethodDelete {
		w.Header().Set("Allow", "PUT, DELETE")
		authserver.Dismiss(w, http.StatusMethodNotAllowed, r.Method+" is not allowed; use one of PUT, DELETE")
		return
	}
	key, valid := serviceOf(w, r)
	if !valid {
		return
	}
	if !g.Guard.Synced() {
		authserver.DismissForNow(w, "this replica has just started and does not know the pods yet; try again")
		return
	}
	pod, err := g.Guard.Check(r, key)
	if err == nil && r.Method == http.MethodPut && !pod.Deleting.IsZero() {
		// It reads the plan to its end, and becomes no member any more.
		err = &authserver.RefusedError{Status: http.StatusForbidden, Message: "pod " + pod.Name + " is terminating"}
	}
	if err == nil {
		authserver.Authorized(r.Context())
		if !g.waiting.enter(pod.UID) {
			authserver.DismissForNow(w, "too many members register or leave; try again")
			return
		}
		defer g.waiting.leave(pod.UID)
		var in struct{ Address, Pin string }
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRegistration)).Decode(&in); err != nil {
			authserver.Refuse(w, http.StatusBadRequest, `the body is not valid; it must be {"address":"IP:PORT","pin":"SHA-256"}: `+
				err.Error())
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), registerWithin)
		defer cancel()
		var plan *v1alpha1.ShardPlacement
		if r.Method == http.MethodPut {
			plan, err = g.Registrar.Register(ctx, key, pod, in.Address, in.Pin)
		} else {
			plan, err = g.Registrar.Leave(ctx, key, pod, in.Pin)
		}
		if err == nil {
			w.Header().Set("ETag", etag(plan))
			w.Header().Set("Cache-Control", "no-store")
			authserver.WriteJSON(w, http.StatusOK, bodyOf(plan))
			return
		}
	}
	if !authserver.DismissRefused(w, err, `Bearer realm="`+Audience+`"`) {
		g.Logger.Warnw("A member could not be registered, or could not leave", "service", key, "error", err)
		authserver.DismissForNow(w, "the API server could not be asked; try again")
	}
}
