package gate

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// recent is for how long after its end a run is told of by a process that starts, and
// shown in metrics.
const recent = time.Hour

// told remembers which runs this process has told of.
type told struct {
	now func() time.Time
	// known says whether it is known which Services there are: before that, nobody
	// listens.
	known func(types.NamespacedName) bool
	by    func(types.NamespacedName, types.UID, *v1alpha1.GateRun)

	mu  sync.Mutex
	ids map[string]time.Time
}

func newTold(now func() time.Time, known func(types.NamespacedName) bool, by func(types.NamespacedName, types.UID, *v1alpha1.GateRun)) *told {
	if by == nil {
		by = func(types.NamespacedName, types.UID, *v1alpha1.GateRun) {}
	}
	return &told{now: now, known: known, by: by, ids: map[string]time.Time{}}
}

// tell tells of a run that is over, unless that was long ago, or told already. A run
// that never found its Service is nobody's news. It returns false if it is too early.
func (t *told) tell(namespace string, run *v1alpha1.GateRun) bool {
	if run == nil || run.CompletionTime == nil || run.Service.UID == "" {
		return true
	}
	now, service := t.now(), types.NamespacedName{Namespace: namespace, Name: run.Service.Name}
	if !t.known(service) {
		return false
	}
	t.mu.Lock()
	for id, at := range t.ids {
		if now.Sub(at) > 2*recent {
			delete(t.ids, id)
		}
	}
	_, known := t.ids[run.ID]
	old := now.Sub(run.CompletionTime.Time) > recent
	if !known && !old {
		t.ids[run.ID] = now
	}
	t.mu.Unlock()
	if !known && !old {
		t.by(service, run.Service.UID, run.DeepCopy())
	}
	return true
}

// forget has all be told again, as to whoever leads anew.
func (t *told) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.ids)
}
