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

// maxVerdicts bounds how many are held of a Service. Those that were journaled are
// remembered there.
const maxVerdicts = 16

// holdVerdicts is for how long they are held: much longer than it takes until they are
// in the history of the Service, from where they are journaled.
const holdVerdicts = 10 * time.Minute

// Verdicts makes what gates find a part of what is seen of their Services. It is safe
// for concurrent use.
type Verdicts struct {
	saw func(types.NamespacedName, observer.Part)
	now func() time.Time

	mu sync.Mutex
	// serial makes each part newer than the one before it.
	serial uint64
	held   map[types.NamespacedName]heldVerdicts
}

type heldVerdicts struct {
	owner types.UID
	all   []lifecycle.Verdict
	// last is when the newest of them came.
	last time.Time
}

// NewVerdicts hands what it is told on to saw, which is Observer.Saw.
func NewVerdicts(saw func(types.NamespacedName, observer.Part)) *Verdicts {
	return &Verdicts{saw: saw, now: time.Now, held: map[types.NamespacedName]heldVerdicts{}}
}

// Reached is called for each run of a gate that has ended, as often as one likes:
// what was told once is not told again.
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
	v.saw(key, observer.Part{
		Name: lifecycle.SeenVerdicts, Version: strconv.FormatUint(v.serial, 10), Owner: service, Value: h.all, Volatile: true,
	})
}
