// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	servingv1beta1 "knative.dev/serving/pkg/apis/serving/v1beta1"

	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// backup is the complete storage of the API server at one moment.
type backup struct {
	ledger  store.Dump
	live    map[types.NamespacedName]*service
	objects map[*service]kept
	domains map[string]*servingv1beta1.DomainMapping
	runs    int
}

type kept struct {
	objects   map[string]object
	gen       int64
	ready     bool
	revisions int
	splits    int
}

func (w *world) save() {
	b := &backup{ledger: w.store.Dump(), live: maps.Clone(w.cluster.live), objects: map[*service]kept{}, domains: maps.Clone(w.cluster.domains), runs: len(w.cluster.runs)}
	for _, s := range b.live {
		b.objects[s] = kept{objects: maps.Clone(s.objects), gen: s.gen, ready: s.ready, revisions: len(s.revisions), splits: len(s.splits)}
	}
	w.backup = b
}

// restore restores the backup, including resourceVersions. It also restarts the controller,
// as every client of a restored API server must restart.
func (w *world) restore() {
	b := w.backup
	if b == nil {
		return
	}
	w.backup = nil
	w.end()
	w.store.Restore(b.ledger)
	clear(w.written)
	w.cluster.now = w.cluster.now.Add(time.Minute) // a restore takes time
	c := w.cluster
	for _, s := range c.history {
		if _, ok := b.objects[s]; !ok && !s.deleted {
			s.unmade = true
		}
	}
	c.era++
	c.logs = [logs][]change{}
	c.live = b.live
	for _, s := range c.history {
		// Events that were pending at the backup may have been sent since, and are sent
		// again. The same holds for deletions.
		m := w.remembered(s)
		s.forgotten = !m.Deployed
		switch {
		case m.Pending != nil:
			s.splits = append(s.splits, commit{split: m.Pending.Transition.Traffic, era: c.era, until: 0, given: true})
		case !m.Deployed && len(m.Traffic) > 0:
			s.splits = append(s.splits, commit{split: m.Traffic, era: c.era, until: 0, given: true})
		}
		for _, source := range w.sources {
			if m.Deployed && !m.Removed {
				w.got[source.UID] = append(w.got[source.UID], delivered{uid: s.uid, traffic: m.Traffic, known: true})
			}
		}
	}
	for _, key := range c.names() {
		s := b.live[key]
		k := b.objects[s]
		s.objects, s.gen, s.ready, s.deleted = k.objects, k.gen, k.ready, false
		s.revisions = slices.Clone(s.revisions[:k.revisions])
		s.restored++
		s.era = c.era
		if k.splits > 0 {
			s.splits = append(s.splits, commit{split: s.splits[k.splits-1].split, era: c.era, at: len(c.logs[logRoutes]), until: -1, given: true})
		}
		for _, name := range slices.Sorted(maps.Keys(s.objects)) {
			c.show(logOf(name), s.objects[name])
		}
	}
	c.domains = b.domains
	for _, name := range slices.Sorted(maps.Keys(c.domains)) {
		c.show(logDomains, c.domains[name])
	}
	c.mapped()
	c.unjudge(b.runs)
	for log := range c.logs {
		c.floor[log] = len(c.logs[log])
	}
}

// show writes an object to a log unchanged.
func (c *cluster) show(log int, o object) {
	obj, err := c.kind.Project(o)
	if err != nil {
		panic(fmt.Sprintf("an object of the simulation cannot be projected: %v", err))
	}
	c.logs[log] = append(c.logs[log], change{obj: obj, version: o.GetResourceVersion()})
}
