// SPDX-License-Identifier: Apache-2.0

package service

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// maxVerdicts is how many verdicts are held of a Service. The journal has older ones.
const maxVerdicts = 16

// holdVerdicts is how long they are held: much longer than it takes until the history of the
// Service has them, from which they are journaled.
const holdVerdicts = 10 * time.Minute

// Updates takes parts of Services. Watch implements it.
type Updates interface {
	Update(service types.NamespacedName, part observer.Part)
}

// Verdicts makes the verdicts of gates a part of their Services. It is safe for concurrent use.
type Verdicts struct {
	updates Updates
	now     func() time.Time

	mu sync.Mutex
	// serial makes each part newer than the one before it.
	serial uint64
	held   map[types.NamespacedName]heldVerdicts
}

type heldVerdicts struct {
	owner types.UID
	all   []lifecycle.Verdict
	// last is when the newest of them arrived.
	last time.Time
}

// NewVerdicts passes verdicts on to updates.
func NewVerdicts(updates Updates) *Verdicts {
	return &Verdicts{updates: updates, now: time.Now, held: map[types.NamespacedName]heldVerdicts{}}
}

// Reached takes the verdict of a run that has ended. It may be called several times for one
// run: it is announced once.
func (v *Verdicts) Reached(key types.NamespacedName, service types.UID, verdict lifecycle.Verdict) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.now()
	maps.DeleteFunc(v.held, func(_ types.NamespacedName, h heldVerdicts) bool { return now.Sub(h.last) > holdVerdicts })
	h := v.held[key]
	if h.owner != service {
		h = heldVerdicts{owner: service}
	}
	if !slices.ContainsFunc(h.all, func(o lifecycle.Verdict) bool { return o.Run == verdict.Run }) {
		h.all = append(slices.Clone(h.all), verdict)
		h.all = h.all[max(0, len(h.all)-maxVerdicts):]
	}
	h.last = now
	v.held[key] = h
	v.serial++
	v.updates.Update(key, observer.Part{
		Name: lifecycle.ObjectVerdicts, Version: strconv.FormatUint(v.serial, 10), Owner: service, Value: h.all,
		Volatile: true,
	})
}
