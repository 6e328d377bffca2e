// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"knative.dev/pkg/hash"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/oracle"
)

// leaseWatch records when a bucket of Services has no leader: from the time its leader is killed or releases the lease
// until another replica holds it.
type leaseWatch struct {
	mu      sync.Mutex
	killed  map[string]time.Time
	holders map[string]string
	since   map[string]time.Time
	over    []oracle.Absence
	lost    int
}

func watchLeases(t *testing.T) *leaseWatch {
	t.Helper()
	w := &leaseWatch{killed: map[string]time.Time{}, holders: map[string]string{}, since: map[string]time.Time{}}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			// If the API server does not answer, the next poll sees the change.
			if leaders, err := suite.Controller.Leaders(ctx); err == nil {
				w.look(leaders)
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(func() { stop(); <-ended })
	return w
}

func (w *leaseWatch) look(leaders map[string]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for lease, holder := range leaders {
		if !strings.Contains(lease, ".services.") {
			continue
		}
		died, dead := w.killed[holder]
		since, absent := w.since[lease]
		switch {
		case (dead || holder == "") && !absent:
			if !dead {
				died = now
			}
			w.since[lease] = died
			w.lost++
		case !dead && holder != "" && absent:
			w.over = append(w.over, oracle.Absence{From: since, To: now, Of: w.bucket(lease, leaders), By: holder})
			delete(w.since, lease)
		}
		w.holders[lease] = holder
	}
}

// bucket returns which Services belong to a lease, by Knative's own hash.
func (*leaseWatch) bucket(lease string, all map[string]string) func(types.NamespacedName) bool {
	set := buckets(all)
	return func(name types.NamespacedName) bool { return set.Owner(name.String()) == lease }
}

func buckets(leases map[string]string) *hash.BucketSet {
	names := sets.New[string]()
	for lease := range leases {
		if strings.Contains(lease, ".services.") {
			names.Insert(lease)
		}
	}
	return hash.NewBucketSet(names)
}

// kill records that a pod is about to be killed.
func (w *leaseWatch) kill(pod string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.killed[pod] = time.Now()
}

// absences returns those that are over and those that last.
func (w *leaseWatch) absences() []oracle.Absence {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := slices.Clone(w.over)
	for lease, since := range w.since {
		out = append(out, oracle.Absence{From: since, To: time.Now(), Of: w.bucket(lease, w.holders)})
	}
	return out
}

// losses returns how often a bucket lost its leader.
func (w *leaseWatch) losses() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost
}

// leader returns the leader for a Service and its lease.
func leader(t *testing.T, namespace, name string) (lease, pod string) {
	t.Helper()
	err := kit.Wait(t.Context(), time.Minute, "a leader for "+name, func(ctx context.Context) error {
		leaders, err := suite.Controller.Leaders(ctx)
		if err != nil {
			return err
		}
		pods, err := suite.Controller.Pods(ctx)
		if err != nil {
			return err
		}
		lease = buckets(leaders).Owner(namespace + "/" + name)
		pod = leaders[lease]
		for i := range pods {
			if pods[i].Name == pod && pods[i].DeletionTimestamp == nil {
				return nil
			}
		}
		return kit.NotYet("the holder of lease %s is %q; the leases are %v", lease, pod, slices.Sorted(maps.Keys(leaders)))
	})
	if err != nil {
		t.Fatal(err)
	}
	return lease, pod
}
