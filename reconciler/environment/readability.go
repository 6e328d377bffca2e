// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/logging"
)

// Readability says whether the objects of a kind can be read.
type Readability string

// ConditionReadable is the condition of a kind's baseline marker that says whether its objects can be read.
const ConditionReadable = "Readable"

// Whether a kind can be read.
const (
	// Readable: its objects are watched.
	Readable Readability = "Readable"
	// MayNotRead: the controller has no permission.
	MayNotRead Readability = "MayNotRead"
	// CannotReadNow: the API server fails to serve it, for example because a conversion webhook does not answer.
	CannotReadNow Readability = "CannotReadNow"
	// Absent: the API server has no such kind.
	Absent Readability = "Absent"
	// NotChosen: the kind was chosen once, and is not any more.
	NotChosen Readability = "NotChosen"
)

// tried takes the result of a request of an informer. That a kind cannot be read says nothing about its objects.
func (w *Watch) tried(ctx context.Context, k *watched, err error) {
	if ctx.Err() != nil {
		return
	}
	r := Readable
	switch {
	case err == nil:
	case forbidden(err):
		r = MayNotRead
	default:
		r = CannotReadNow
	}
	if !w.report(k, r) {
		return
	}
	log := logging.FromContext(ctx)
	switch r {
	case MayNotRead:
		log.Warnw(
			"Environments of this kind are not watched: the controller may not read them; docs/environments.md says how to allow it",
			"kind",
			k.of,
			"error",
			err,
		)
	case CannotReadNow:
		log.Warnw("Environments of this kind cannot be read at the moment; events about them come later", "kind", k.of,
			"error", err)
	}
}

// report takes over how a kind can be read. It returns whether this is new.
func (w *Watch) report(k *watched, r Readability) bool {
	w.mu.Lock()
	changed := k.readable != r
	k.readable = r
	w.mu.Unlock()
	if changed {
		w.Compare() // which writes it down
	}
	return changed
}

// mark writes down how each kind can be read, if this process leads for it. It returns false if something remains to be
// written.
func (w *Watch) mark(ctx context.Context) (done bool) {
	done = true
	for _, k := range w.all() {
		w.mu.Lock()
		r, marked := k.readable, k.marked
		w.mu.Unlock()
		if r == marked || ctx.Err() != nil || !w.Registry.IsLeaderFor(types.NamespacedName{Name: k.marker()}) {
			continue
		}
		if err := w.Markers.SetCondition(ctx, k.marker(), r.condition()); err != nil {
			if done = false; !apierrors.IsNotFound(err) { // the marker may not be written yet
				logging.FromContext(ctx).Warnw("Could not write down whether a kind of environments can be read; trying again",
					"kind", k.of, "error", err)
			}
			continue
		}
		w.mu.Lock()
		k.marked = r
		w.mu.Unlock()
	}
	return done
}

// marker is the name of the kind in the ledger's baseline marker.
func (k *Kind) marker() string { return strings.ToLower(k.of.String()) }

// condition is how a marker says it.
func (r Readability) condition() metav1.Condition {
	status := metav1.ConditionFalse
	if r == Readable {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: ConditionReadable, Status: status, Reason: string(r), Message: r.message()}
}

// message explains a readability.
func (r Readability) message() string {
	switch r {
	case MayNotRead:
		return "the controller may not read this kind; allow it with the ClusterRoles in config/optional/environments"
	case CannotReadNow:
		return "the API server cannot serve this kind at the moment, for example because a conversion webhook does not answer"
	case Absent:
		return "this kind is not installed"
	case NotChosen:
		return "neither environment-kinds in ConfigMap config-cdevents nor a label chooses this kind any more"
	}
	return ""
}
