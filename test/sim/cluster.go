package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
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
	// era counts how often the storage was restored from a backup; the logs
	// begin anew with each.
	era int
	// stateful says which Services are.
	stateful func(name string) bool
	// floor is how much of each log nobody can fail to see.
	floor [3]int
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
	// restored counts how often it was taken back to an earlier state; unmade
	// says that it came after the backup and is gone without a trace.
	restored int
	unmade   bool
	// era is the one in which it was created, restored or deleted last.
	era int
	// stateful says that its pods are a cluster; the rest is how that stands.
	stateful bool
	members  []string
	moved    time.Time
	split    bool
}

// commit is an effective split and its place in the log of Routes.
type commit struct {
	split []lifecycle.Share
	// era and at say where in which log it stands; until is where the next state
	// of the same Route stands, -1 while there is none.
	era, at, until int
	// known says that the ledger had an entry of the Service at that moment.
	known bool
	// given is a state that a restored backup brought, rather than a change.
	given bool
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

// kindName is the kind that is watched.
const kindName = "Service"

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
	if log == logRoutes && len(s.splits) > 0 {
		if last := &s.splits[len(s.splits)-1]; last.era == c.era && last.until < 0 {
			last.until = len(c.logs[log])
		}
	}
	c.logs[log] = append(c.logs[log], change{key: s.key, part: p})
}

func (c *cluster) putService(s *service) {
	c.put(s, logServices, partService, serviceValue{UID: s.uid, Created: s.created, Gen: s.gen, Ready: s.ready})
}

func (c *cluster) create(name string) {
	key := types.NamespacedName{Namespace: "ns", Name: name}
	c.serial++
	s := &service{key: key, uid: types.UID(fmt.Sprintf("uid-%d", c.serial)), created: c.now.Truncate(time.Second), parts: observer.Parts{}, era: c.era}
	s.stateful = c.stateful != nil && c.stateful(name)
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
		Name: name, UID: fmt.Sprintf("%s-%s-%d", s.uid, name, c.era), Generation: int64(n), Template: name,
		Images: []lifecycle.Image{{Image: "app:" + name, Digest: "app@sha256:" + string(s.uid) + name}},
	}
	if s.stateful {
		facts.Stateful = "pekko"
		c.join(s, append(slices.Clone(s.members), name))
	}
	if c.rng.IntN(2) == 0 {
		c.put(s, logRevisions, partRevision+name, revisionValue{Owner: s.uid, Facts: facts})
	}
	facts.Ready = true
	c.put(s, logRevisions, partRevision+name, revisionValue{Owner: s.uid, Facts: facts})
	return name
}

// route commits an effective split, with what Serving writes around it.
func (c *cluster) route(s *service, targets ...lifecycle.Share) {
	split := lifecycle.Split(targets)
	s.gen++
	if c.rng.IntN(3) == 0 {
		// Written before the ingress has it.
		c.put(s, logRoutes, partRoute, routeValue{Owner: s.uid, Route: lifecycle.Route{Traffic: split}})
	}
	at := len(c.logs[logRoutes])
	c.put(s, logRoutes, partRoute, routeValue{Owner: s.uid, Route: lifecycle.Route{Effective: true, Ready: true, Traffic: split, URLs: []string{"http://" + s.key.Name + ".example.com"}}})
	if n := len(s.splits); n == 0 || s.splits[n-1].era != c.era || !slices.Equal(s.splits[n-1].split, split) {
		s.splits = append(s.splits, commit{split: split, era: c.era, at: at, until: -1, known: c.known(s)})
	} else {
		s.splits[n-1].until = -1 // the same split once more
	}
	if !s.ready || c.rng.IntN(2) == 0 {
		s.ready = true
		c.putService(s)
	}
}

// known says whether the ledger has an entry of a Service.
func (c *cluster) known(s *service) bool {
	return c.store.Has(ledger.Name(v1alpha1.CDEventSubjectSpec{Kind: kindName, UID: s.uid}))
}

// shift moves traffic of a Service in one of the ways that users do.
func (c *cluster) shift(s *service) {
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
	c.route(s, lifecycle.Share{Revision: newest, Percent: percent}, lifecycle.Share{Revision: other, Percent: 100 - percent})
}

func (c *cluster) remove(s *service) {
	s.deleted, s.era = true, c.era
	delete(c.live, s.key)
	for _, name := range slices.Sorted(maps.Keys(s.parts)) {
		c.put(s, logOf(name), name, nil)
	}
}

func logOf(part string) int {
	switch part {
	case partService:
		return logServices
	case partRoute:
		return logRoutes
	}
	return logRevisions
}

func (c *cluster) names() []types.NamespacedName {
	return slices.SortedFunc(maps.Keys(c.live), func(a, b types.NamespacedName) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
}
