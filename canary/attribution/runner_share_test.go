// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape/limits"
)

// living is a Service with one pod per Revision that handle requests until they are gone. It gives the readings of a
// real Runner to Counts: the addresses are wrong, so it answers for the pods.
type living struct {
	mu     sync.Mutex
	exists bool
	dying  bool
	n      float64
	*Counts
}

func (l *living) Ready() bool                      { return true }
func (l *living) Services() []types.NamespacedName { return []types.NamespacedName{cart} }
func (l *living) Exists(types.NamespacedName) bool { return true }
func (l *living) HasPods(types.NamespacedName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.exists
}

func (l *living) HasDying(types.NamespacedName) bool { return len(l.all(true)) > 0 }

func (l *living) all(dying bool) []scrape.Target {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.exists || dying && !l.dying {
		return nil
	}
	return []scrape.Target{{Pod: "p1", Path: "/", Dying: l.dying}, {Pod: "p2", Path: "/", Dying: l.dying}}
}

func (l *living) Targets(context.Context, types.NamespacedName) []scrape.Target { return l.all(false) }
func (l *living) Dying(context.Context, types.NamespacedName) []scrape.Target   { return l.all(true) }

func (l *living) Read(key types.NamespacedName, all []scrape.Reading) {
	l.mu.Lock()
	n := l.n
	l.mu.Unlock()
	for i := range all {
		all[i].Err, all[i].Exposition = nil, expose(mapping.NeutralName, 1e9, handled(n, 0))
	}
	l.Counts.Read(key, all)
}

// always leads for all Services.
type always struct{}

func (always) IsLeaderFor(types.NamespacedName) bool { return true }

// scraping are settings that do not change.
type scraping scrape.Settings

func (s scraping) Scraping() scrape.Settings { return scrape.Settings(s) }

// With the default interval, whenever the last pods go, nothing is left of the share after the window.
func TestSharesEndWheneverTheLastPodsGo(t *testing.T) {
	t.Parallel()
	wrong := 0
	for after := range 20 {
		synctest.Test(t, func(t *testing.T) {
			l := &living{exists: true}
			l.Counts = NewCounts(func(types.NamespacedName) Facts {
				l.mu.Lock()
				defer l.mu.Unlock()
				f := sharded()
				if !l.exists {
					f.Pods = nil
				}
				return f
			}, time.Now)
			neutral := mapping.NewReader(mapping.Neutral())
			r := &scrape.Runner{
				Budget: scrape.NewBudget(), Client: scrape.NewClient(1), Discovery: l, Sink: l, Leader: always{},
				Settings: scraping{
					Interval: 15 * time.Second, Limits: limits.Default, Reader: func(string) *mapping.Reader { return neutral },
					Entry: neutral,
				},
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); r.Run(ctx) }()
			time.Sleep(123 * time.Millisecond) // never at the moment of a reading
			const grace = 12
			for second := range 60 + after + grace {
				time.Sleep(time.Second)
				l.mu.Lock()
				l.n++
				if second == 60+after {
					l.dying = true
				}
				l.mu.Unlock()
				if second == 60+after {
					r.Changed(cart)
				}
			}
			l.mu.Lock()
			l.exists = false
			l.mu.Unlock()
			r.Changed(cart)
			time.Sleep(time.Hour)
			f, _ := l.Figure(cart)
			if s := f.Revisions[0].Share; s != nil {
				wrong++
			}
			cancel()
			<-done
		})
	}
	if wrong > 0 {
		t.Errorf("an hour after the last pod, there is still a share in %d of 20 cases", wrong)
	}
}
