// Package sim runs the real observer, lifecycle, ledger and delivery against a
// simulated API server and sink, with crashes between any two side effects.
//
// Nothing in it sleeps or reads a clock: a seed decides everything, so that a
// failing history can be run again.
package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/reconciler/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// Parts of a simulated Service, as reconciler/service names them.
const (
	partService  = lifecycle.SeenService
	partRoute    = lifecycle.SeenRoute
	partRevision = "revision/"
)

type serviceValue struct {
	UID     types.UID
	Created time.Time
	Gen     int64
	Ready   bool
}

type routeValue struct {
	Owner types.UID
	lifecycle.Route
}

type revisionValue struct {
	Owner types.UID
	Facts lifecycle.Revision
}

func (r revisionValue) Revision() lifecycle.Revision { return r.Facts }

// change is one entry of an informer's watch.
type change struct {
	key  types.NamespacedName
	part observer.Part
}

// cluster is the API server's view: the objects, and one watch log for each
// resource. The logs have no common order for those who read them.
type cluster struct {
	store *store.Store
	rng   *rand.Rand
	now   time.Time
	logs  [3][]change
	live  map[types.NamespacedName]*service
	// history is what the oracle reads: every object that ever was.
	history []*service
	serial  int
}

// service is one Service with everything that belongs to it.
type service struct {
	key     types.NamespacedName
	uid     types.UID
	created time.Time
	parts   observer.Parts
	gen     int64
	// splits are the effective splits, as they were committed.
	splits  []commit
	ready   bool
	deleted bool
	// revisions are the names of all that it ever had, oldest first.
	revisions []string
}

// commit is an effective split and who was watching at that moment.
type commit struct {
	split    []lifecycle.Share
	watchers []*process
}

func newCluster(s *store.Store, rng *rand.Rand) *cluster {
	c := &cluster{store: s, rng: rng, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), live: map[types.NamespacedName]*service{}}
	s.Now = func() time.Time { return c.now }
	return c
}

// tick lets time pass; whole seconds matter for creationTimestamps.
func (c *cluster) tick() {
	c.now = c.now.Add(time.Duration(c.rng.IntN(700)+1) * time.Millisecond)
}

const (
	logServices = iota
	logRoutes
	logRevisions
)

func (c *cluster) put(s *service, log int, name string, value any) {
	p := observer.Part{Name: name, Version: c.store.NextVersion(), Value: value, Root: name == partService}
	if name == partService || name == partRoute {
		p.Owner = s.uid
	}
	if value == nil {
		delete(s.parts, name)
	} else {
		s.parts[name] = p
	}
	c.logs[log] = append(c.logs[log], change{key: s.key, part: p})
}

func (c *cluster) putService(s *service) {
	c.put(s, logServices, partService, serviceValue{UID: s.uid, Created: s.created, Gen: s.gen, Ready: s.ready})
}

func (c *cluster) create(name string) {
	key := types.NamespacedName{Namespace: "ns", Name: name}
	c.serial++
	s := &service{key: key, uid: types.UID(fmt.Sprintf("uid-%d", c.serial)), created: c.now.Truncate(time.Second), parts: observer.Parts{}}
	c.live[key] = s
	c.history = append(c.history, s)
	s.gen = 1
	c.putService(s)
	c.revise(s)
}

// revise makes a Revision that becomes Ready at once.
func (c *cluster) revise(s *service) string {
	n := len(s.revisions) + 1
	name := fmt.Sprintf("%s-%05d", s.key.Name, n)
	s.revisions = append(s.revisions, name)
	facts := lifecycle.Revision{
		Name: name, UID: string(s.uid) + name, Generation: int64(n), Template: name,
		Images: []lifecycle.Image{{Image: "app:" + name, Digest: "app@sha256:" + string(s.uid) + name}},
	}
	if c.rng.IntN(2) == 0 {
		c.put(s, logRevisions, partRevision+name, revisionValue{Owner: s.uid, Facts: facts})
	}
	facts.Ready = true
	c.put(s, logRevisions, partRevision+name, revisionValue{Owner: s.uid, Facts: facts})
	return name
}

// route commits an effective split, with what Serving writes around it.
func (c *cluster) route(s *service, watchers []*process, targets ...lifecycle.Share) {
	split := lifecycle.Split(targets)
	s.gen++
	if c.rng.IntN(3) == 0 {
		// Written before the ingress has it.
		c.put(s, logRoutes, partRoute, routeValue{Owner: s.uid, Route: lifecycle.Route{Traffic: split}})
	}
	c.put(s, logRoutes, partRoute, routeValue{Owner: s.uid, Route: lifecycle.Route{Effective: true, Ready: true, Traffic: split, URLs: []string{"http://" + s.key.Name + ".example.com"}}})
	if len(s.splits) == 0 || !slices.Equal(s.splits[len(s.splits)-1].split, split) {
		s.splits = append(s.splits, commit{split: split, watchers: slices.Clone(watchers)})
	}
	if !s.ready || c.rng.IntN(2) == 0 {
		s.ready = true
		c.putService(s)
	}
}

// shift moves traffic of a Service in one of the ways that users do.
func (c *cluster) shift(s *service, watchers []*process) {
	newest := s.revisions[len(s.revisions)-1]
	if len(s.revisions) == 1 || c.rng.IntN(3) == 0 {
		if len(s.splits) > 0 {
			newest = c.revise(s)
		}
	}
	other := s.revisions[c.rng.IntN(len(s.revisions))]
	percent := []int64{100, 100, 10, 25, 50}[c.rng.IntN(5)]
	if len(s.splits) == 0 {
		percent = 100
	}
	c.route(s, watchers, lifecycle.Share{Revision: newest, Percent: percent}, lifecycle.Share{Revision: other, Percent: 100 - percent})
}

func (c *cluster) remove(s *service) {
	s.deleted = true
	delete(c.live, s.key)
	for _, name := range slices.Sorted(maps.Keys(s.parts)) {
		log := logRevisions
		switch name {
		case partService:
			log = logServices
		case partRoute:
			log = logRoutes
		}
		c.put(s, log, name, nil)
	}
}

func (c *cluster) names() []types.NamespacedName {
	return slices.SortedFunc(maps.Keys(c.live), func(a, b types.NamespacedName) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
}
