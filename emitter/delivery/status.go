// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// SourceStatus returns how many events are pending for a source, the time of the oldest, when
// its sink last accepted one, and what is wrong; "" if nothing is.
func (d *Delivery) SourceStatus(uid types.UID) (pending int64, oldest, delivered time.Time, problem string) {
	s := d.backlogs.of(uid, d.Ledger)
	if q := d.queueOf(uid); q != nil {
		delivered, problem = q.report()
	}
	return s.Pending, s.Oldest, delivered, problem
}

// ReportProblem shows a problem in the status of a source, until its sink accepts an event.
func (d *Delivery) ReportProblem(uid types.UID, problem string) {
	if q := d.queueOf(uid); q != nil {
		q.setProblem(problem)
	}
}

// Breakers returns for each source, by name, whether its breaker is open.
func (d *Delivery) Breakers() map[string]bool {
	all := d.all()
	out := make(map[string]bool, len(all))
	for _, q := range all {
		out[q.label()] = q.breaker.open()
	}
	return out
}

// cachedBacklogs keeps a sum for a second: computing it walks the whole ledger.
type cachedBacklogs struct {
	mu  sync.Mutex
	at  time.Time
	all map[types.UID]ledger.Backlog
}

func (c *cachedBacklogs) of(uid types.UID, l Ledger) ledger.Backlog {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.at) > time.Second {
		c.all, c.at = l.Backlogs(), time.Now()
	}
	return c.all[uid]
}
