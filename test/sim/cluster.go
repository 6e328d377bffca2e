// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
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
	// obj is the object as the caches hold it.
	obj  any
	gone bool
	// version is the object's resourceVersion.
	version string
}

// cluster is the state of the API server: the objects, and one watch log for each
// resource. Readers see no order between the logs.
type cluster struct {
	store *store.Store
	rng   *rand.Rand
	now   time.Time
	logs  [logs][]change
	// kind projects objects. All processes share it.
	kind *kind.Kind
	live map[types.NamespacedName]*service
	// history is what the oracle reads: every object that ever existed.
	history []*service
	serial  int
	// era counts the restores from a backup. Each restore starts new logs.
	era int
	// stateful reports whether a Service is stateful.
	stateful func(name string) bool
	// wrote, if set, is called with each object that is written or deleted.
	wrote func(object)
	// floor is the part of each log that every list contains.
	floor [logs]int
	// fleet are the environments.
	fleet fleet
	// domains are the current DomainMappings, and mappings the URLs of each name over
	// time.
	domains  map[string]*servingv1beta1.DomainMapping
	mappings map[string][]string
	// runs are the completed runs of gates.
	runs []*judged
}

// service is one Service with everything that belongs to it.
type service struct {
	key     types.NamespacedName
	uid     types.UID
	created time.Time
	// objects are its objects, by the name of the part.
	objects map[string]object
	gen     int64
	// splits are the effective splits, in the order of their commits.
	splits  []commit
	ready   bool
	deleted bool
	// revisions are the names of all its Revisions, oldest first, and templates
	// the template of each.
	revisions, templates []string
	// restored counts how often a restore took it back to an earlier state. unmade
	// means that it was created after the backup, and the restore removed it.
	restored int
	unmade   bool
	// forgotten means that the newest backup does not have it as deployed.
	forgotten bool
	// era is the era in which it was last created, restored or deleted.
	era int
	// stateful means that its pods form a cluster. The other fields are its state.
	stateful bool
	members  []string
	moved    time.Time
	split    bool
	// shifted is when the effective split last changed.
	shifted time.Time
}

// commit is an effective split and its position in the log of Routes.
type commit struct {
	split []lifecycle.Share
	// era and at are its position in a log; until is the position of the Route's
	// next state, or -1.
	era, at, until int
	// known means that the ledger had an entry of the Service at that moment.
	known bool
	// given means that the state came from a restored backup and not from a change.
	given bool
}

func newCluster(s *store.Store, rng *rand.Rand) *cluster {
	c := &cluster{
		store: s, rng: rng, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), live: map[types.NamespacedName]*service{},
		kind: kind.NewKind(nil, cdevents.CarriedAnnotations(), installed{}, nil), domains: map[string]*servingv1beta1.DomainMapping{}, mappings: map[string][]string{},
		fleet: fleet{live: map[types.NamespacedName]*platform{}},
	}
	s.Now = func() time.Time { return c.now }
	return c
}

// tick advances the clock; whole seconds matter for creationTimestamps.
func (c *cluster) tick() {
	c.now = c.now.Add(time.Duration(c.rng.IntN(700)+1) * time.Millisecond)
}

// kindName is the watched kind.
const kindName = "Service"

const (
	logServices = iota
	logRoutes
	logRevisions
	logDomains
	logs
)

// write adds an object to the watch log of its resource.
func (c *cluster) write(log int, o object, gone bool) {
	o.SetResourceVersion(c.store.NextVersion())
	if c.wrote != nil {
		c.wrote(o)
	}
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

// revise creates a Revision that becomes Ready at once.
func (c *cluster) revise(s *service) string {
	n := len(s.revisions) + 1
	name := fmt.Sprintf("%s-%05d", s.key.Name, n)
	s.revisions = append(s.revisions, name)
	// Templates repeat, as users often apply an earlier one again.
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

// digest returns the digest of the template's image.
func digest(template string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(template))) }

// route commits an effective split, and writes what Serving writes with it.
func (c *cluster) route(s *service, targets ...lifecycle.Share) {
	split := lifecycle.NewSplit(targets)
	s.gen++
	if c.rng.IntN(3) == 0 {
		// Serving writes the split before the ingress applies it.
		c.put(s, logRoutes, partRoute, s.routeObject(split, false))
	}
	at := len(c.logs[logRoutes])
	c.put(s, logRoutes, partRoute, s.routeObject(split, true))
	if n := len(s.splits); n == 0 || s.splits[n-1].era != c.era || !slices.Equal(s.splits[n-1].split, split) {
		s.splits = append(s.splits, commit{split: split, era: c.era, at: at, until: -1, known: c.known(s)})
		s.shifted = c.now
	} else {
		s.splits[n-1].until = -1 // the same split again
	}
	if !s.ready || c.rng.IntN(2) == 0 {
		s.ready = true
		c.putService(s)
	}
}

// known reports whether the ledger has an entry of a Service.
func (c *cluster) known(s *service) bool {
	return c.store.Has(ledger.Name(v1alpha1.CDEventSubjectSpec{Kind: kindName, UID: s.uid}))
}

// shift moves traffic of a Service as a user might.
func (c *cluster) shift(s *service) {
	if n := len(s.splits); n > 1 && s.splits[n-2].era == c.era && c.rng.IntN(6) == 0 {
		c.route(s, s.splits[n-2].split...) // a step is taken back
		return
	}
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

func (c *cluster) names() []types.NamespacedName { return byName(c.live) }

// byName returns the keys of a map in an order that does not vary.
func byName[V any](all map[types.NamespacedName]V) []types.NamespacedName {
	return slices.SortedFunc(maps.Keys(all), func(a, b types.NamespacedName) int { return strings.Compare(a.Name, b.Name) })
}
