package sim

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	servingv1beta1 "knative.dev/serving/pkg/apis/serving/v1beta1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	kind "github.com/knative-cdevents/knative-cdevents/reconciler/service"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// Parts of a simulated Service, as reconciler/service names them.
const (
	partService  = lifecycle.ObjectService
	partRoute    = lifecycle.ObjectRoute
	partRevision = "revision/"
)

// change is one entry of an informer's watch.
type change struct {
	// obj is what the caches hold of the object.
	obj  any
	gone bool
	// version is that of the object.
	version string
}

// cluster is the API server's view: the objects, and one watch log for each
// resource. The logs have no common order for those who read them.
type cluster struct {
	store *store.Store
	rng   *rand.Rand
	now   time.Time
	logs  [logs][]change
	// kind projects objects, once for all processes.
	kind *kind.Kind
	live map[types.NamespacedName]*service
	// history is what the oracle reads: every object that ever was.
	history []*service
	serial  int
	// era counts how often the storage was restored from a backup; the logs
	// begin anew with each.
	era int
	// stateful says which Services are.
	stateful func(name string) bool
	// floor is how much of each log nobody can fail to see.
	floor [logs]int
	// domains are the DomainMappings that there are, and mappings the URLs that led to
	// each name, one after the other.
	domains  map[string]*servingv1beta1.DomainMapping
	mappings map[string][]string
	// runs are the runs of gates that are over.
	runs []*judged
}

// service is one Service with everything that belongs to it.
type service struct {
	key     types.NamespacedName
	uid     types.UID
	created time.Time
	// objects are those that it consists of, by the name of the part.
	objects map[string]object
	gen     int64
	// splits are the effective splits, as they were committed.
	splits  []commit
	ready   bool
	deleted bool
	// revisions are the names of all that it ever had, oldest first, and templates
	// what each of them was made from.
	revisions, templates []string
	// restored counts how often it was taken back to an earlier state; unmade
	// says that it came after the backup and is gone without a trace.
	restored int
	unmade   bool
	// forgotten says that the newest backup does not know of it as deployed.
	forgotten bool
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
	c := &cluster{
		store: s, rng: rng, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), live: map[types.NamespacedName]*service{},
		kind: kind.NewKind(nil, cdevents.CarriedAnnotations(), func() bool { return true }, nil), domains: map[string]*servingv1beta1.DomainMapping{}, mappings: map[string][]string{},
	}
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
	logDomains
	logs
)

// write has the watch of a resource tell of an object.
func (c *cluster) write(log int, o object, gone bool) {
	o.SetResourceVersion(c.store.NextVersion())
	c.show(log, o)
	c.logs[log][len(c.logs[log])-1].gone = gone
}

// put writes a part of a Service; nil deletes it.
func (c *cluster) put(s *service, log int, name string, o object) {
	gone := o == nil
	if gone {
		copied, ok := s.objects[name].DeepCopyObject().(object)
		if !ok {
			panic("the copy of an object is none")
		}
		o = copied
		delete(s.objects, name)
	} else {
		s.objects[name] = o
	}
	if log == logRoutes && len(s.splits) > 0 {
		if last := &s.splits[len(s.splits)-1]; last.era == c.era && last.until < 0 {
			last.until = len(c.logs[log])
		}
	}
	c.write(log, o, gone)
}

func (c *cluster) putService(s *service) {
	c.put(s, logServices, partService, s.object())
}

func (c *cluster) create(name string) {
	key := types.NamespacedName{Namespace: "ns", Name: name}
	c.serial++
	s := &service{key: key, uid: types.UID(fmt.Sprintf("uid-%d", c.serial)), created: c.now.Truncate(time.Second), objects: map[string]object{}, era: c.era}
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
	// Few are all different: people apply what they had before.
	template := fmt.Sprintf("template-%d", c.rng.IntN(4))
	s.templates = append(s.templates, template)
	if s.stateful {
		c.join(s, append(slices.Clone(s.members), name))
	}
	if c.rng.IntN(2) == 0 {
		c.put(s, logRevisions, partRevision+name, s.revisionObject(name, n, c.era, template, false))
	}
	c.put(s, logRevisions, partRevision+name, s.revisionObject(name, n, c.era, template, true))
	return name
}

// digest is that of the image which a template names.
func digest(template string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(template))) }

// route commits an effective split, with what Serving writes around it.
func (c *cluster) route(s *service, targets ...lifecycle.Share) {
	split := lifecycle.Split(targets)
	s.gen++
	if c.rng.IntN(3) == 0 {
		// Written before the ingress has it.
		c.put(s, logRoutes, partRoute, s.routeObject(split, false))
	}
	at := len(c.logs[logRoutes])
	c.put(s, logRoutes, partRoute, s.routeObject(split, true))
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
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
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
