// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/placement"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

const (
	// scrapeEvery is the default of config-canary, in seconds.
	scrapeEvery = 15
	// warning is how long before the split the canary's pods start, in seconds.
	warning = 20
	// servedBefore is how many requests each pod has served before the controller watches it.
	servedBefore = 1e6
)

var service = types.NamespacedName{Namespace: "shop", Name: "cart"}

var errDown = errors.New("the container is not running")

// scene plays a world, second by second.
type scene struct {
	world
	rng  *rand.Rand
	zero time.Time
	// at is the time since the split, in seconds.
	at   float64
	pods []*pod
	made int
	// serving are the pods of each side that take requests in this second.
	serving [2][]*pod
	// owner is the pod that holds each shard.
	owner []*pod
	// upTo is the traffic of each shard and all before it.
	upTo []float64
	// plan is the placement plan since the split, if there is one.
	plan *v1alpha1.ShardPlacementStatus
	// due holds the open requests by the second in which they end.
	due map[int][]request

	entryReader, appReader *mapping.Reader
	counts                 *attribution.Counts
	// asText has every reading pass through text.
	asText bool
	early  []scrape.Reading
	fates  func(m moment) fate
	events func() error
	// gate is what the gateway sees of each side.
	gate [2]telemetry
	// judged means that only others are still interested.
	judged bool
}

// request is open.
type request struct {
	entry *pod
	// handler is nil if it does not get beyond its entry.
	handler *pod
	// process is the one that would finish it.
	process int
	shard   int
	code    string
	took    float64
}

func newScene(w world, rng *rand.Rand, asText bool) *scene {
	s := &scene{
		world: w, rng: rng, asText: asText, due: map[int][]request{}, at: -w.before.Seconds(),
		zero:        time.Unix(1.8e9+rng.Int64N(1e7), 0).UTC(),
		entryReader: mapping.Entry(), appReader: mapping.NewReader(mapping.Neutral()),
	}
	for i := range w.pods[baseline] {
		s.pods = append(s.pods, newPod(s, baseline, i, s.at-3600*(1+rng.Float64())))
	}
	for shard, all := 0, 0.0; shard < w.shards; shard++ {
		s.owner = append(s.owner, s.pods[shard%len(s.pods)])
		all += math.Exp(w.uneven * rng.NormFloat64())
		s.upTo = append(s.upTo, all)
	}
	s.fates, s.events = w.behaves(s), func() error { return nil }
	for _, p := range s.pods {
		p.served(servedBefore, s.fates(moment{at: s.at, pod: p, rng: rng}))
	}
	s.counts = attribution.NewCounts(func(types.NamespacedName) attribution.Facts { return s.facts() }, s.now)
	s.counts.Begin(service, false)
	if w.happens != nil {
		s.events = w.happens(s)
	}
	return s
}

func (s *scene) sharded() bool { return s.shards > 0 }

func (s *scene) now() time.Time { return s.time(s.at) }

// time is a time since the split.
func (s *scene) time(at float64) time.Time {
	return s.zero.Add(time.Duration(at * float64(time.Second)))
}

// unix is a time since the split as seconds since 1970.
func (s *scene) unix(at float64) float64 { return float64(s.zero.Unix()) + at }

// second plays one second, and reads the pods at its end if that is due.
func (s *scene) second() error {
	if s.at == -warning {
		for i := range s.world.pods[canary] {
			s.pods = append(s.pods, newPod(s, canary, i, s.at))
		}
	}
	if s.at == 0 {
		if err := s.move(); err != nil {
			return err
		}
	}
	if err := s.events(); err != nil {
		return err
	}
	s.finish()
	s.begin()
	s.at++
	return s.scrape()
}

// move gives the canary's pods their part of the shards: by plan, or chosen at random.
func (s *scene) move() error {
	if s.drift > 0 {
		s.change()
	}
	if s.planned {
		return s.follow()
	}
	mine := s.of(canary)
	for i, shard := range s.rng.Perm(s.shards)[:int(math.Round(float64(s.shards)*s.owns))] {
		s.owner[shard] = mine[i%len(mine)]
	}
	return nil
}

// change gives each shard another traffic.
func (s *scene) change() {
	all, before := 0.0, 0.0
	for i, upTo := range s.upTo {
		all += (upTo - before) * math.Exp(s.drift*s.rng.NormFloat64())
		s.upTo[i], before = all, upTo
	}
}

// follow makes a plan as the controller does, and moves shards as it says.
func (s *scene) follow() error {
	in := placement.Input{Shares: []lifecycle.Share{
		{Revision: names[baseline], Percent: 100 - s.percent}, {Revision: names[canary], Percent: s.percent},
	}}
	s.plan = &v1alpha1.ShardPlacementStatus{Mode: v1alpha1.PlacementEnforce}
	index, pods := map[string]int32{}, map[string]*pod{}
	for i, p := range s.pods {
		name := string(p.uid)
		index[name], pods[name] = int32(i), p
		in.Members = append(in.Members, placement.Member{Name: name, Revision: names[p.side], Phase: placement.Up})
		s.plan.Members = append(s.plan.Members, v1alpha1.PlacementMember{Address: name, Pod: name, Revision: names[p.side]})
	}
	loads := s.counts.Loads(service)
	for shard, owner := range s.owner {
		in.Owners = append(in.Owners, string(owner.uid))
		in.Load = append(in.Load, loads[attribution.ShardKey{Entity: entity, Shard: strconv.Itoa(shard)}])
	}
	plan, err := placement.Assign(in)
	if err != nil {
		return fmt.Errorf("planning: %w", err)
	}
	one := v1alpha1.PlacementEntityType{Name: entity, Shards: int32(s.shards)} //nolint:gosec // a few
	for _, owner := range plan.Owners {
		one.Owners = append(one.Owners, index[owner])
	}
	for i, m := range plan.Moves {
		if !s.half || i%2 == 0 {
			s.owner[m.Shard] = pods[m.To]
		}
	}
	s.plan.EntityTypes = []v1alpha1.PlacementEntityType{one}
	return nil
}

// shard returns the shard of a request.
func (s *scene) shard() int {
	at := s.rng.Float64() * s.upTo[s.shards-1]
	i, _ := slices.BinarySearch(s.upTo, at)
	return min(i, s.shards-1)
}

// of returns the pods of a side that serve.
func (s *scene) of(one side) []*pod {
	var out []*pod
	for _, p := range s.pods {
		if p.side == one && p.serves(s.at) {
			out = append(out, p)
		}
	}
	return out
}

// remove has a pod go. It is read once more before, as pods that are being deleted are read every second.
func (s *scene) remove(p *pod) error {
	if !s.judged {
		all, err := s.readings(func(other *pod) bool { return other == p })
		if err != nil {
			return err
		}
		s.counts.Read(service, all)
	}
	for i, other := range s.pods {
		if other == p {
			s.pods = append(s.pods[:i:i], s.pods[i+1:]...)
			break
		}
	}
	p.process++
	p.gone = true
	return nil
}

// facts are what the controller knows without reading the pods.
func (s *scene) facts() attribution.Facts {
	f := attribution.Facts{OneCall: s.sharded()}
	for _, one := range []side{baseline, canary} {
		if one == canary && s.at < -warning {
			continue
		}
		required := s.percentOf(one) / 100
		f.Revisions = append(f.Revisions, attribution.Revision{
			Revision: s.revision(one), Configuration: service.Name, Timeout: s.timeout, Required: &required,
		})
	}
	for _, p := range s.pods {
		f.Pods = append(f.Pods, p.facts(s))
	}
	return f
}

// revision is what the controller knows of a side's Revision.
func (s *scene) revision(one side) *lifecycle.Revision {
	runtime := map[bool]string{true: "pekko"}[s.sharded()]
	return &lifecycle.Revision{Name: names[one], UID: revisions[one], Generation: int64(one) + 1, Stateful: runtime}
}

// percentOf is what the Route gives a side now.
func (s *scene) percentOf(one side) float64 {
	given := float64(s.percent)
	if s.at < 0 {
		given = 0
	}
	if one == baseline {
		return 100 - given
	}
	return given
}

// state is the Service as a gate sees it.
func (s *scene) state() *gaterun.Service {
	out := &gaterun.Service{UID: "uid-of-cart", Settled: true, Plan: s.plan, Revisions: map[string]*lifecycle.Revision{}}
	percent := map[string]int64{}
	for _, one := range []side{baseline, canary} {
		out.Revisions[names[one]], percent[names[one]] = s.revision(one), int64(s.percentOf(one))
	}
	out.Effective, out.Traffic = true, lifecycle.SplitOf(percent)
	return out
}

// scrape reads all pods when that is due.
func (s *scene) scrape() error {
	second := int(s.at)
	if second%scrapeEvery == 0 && s.at >= 0 {
		for i := range s.gate {
			s.gate[i].keep()
		}
	}
	if s.judged {
		return nil
	}
	if s.late > 0 && (second+s.late)%scrapeEvery == 0 {
		var err error
		if s.early, err = s.readings(func(p *pod) bool { return p.side == baseline }); err != nil {
			return err
		}
	}
	if second%scrapeEvery != 0 {
		return nil
	}
	all, err := s.readings(func(p *pod) bool { return s.late == 0 || p.side == canary })
	if err != nil {
		return err
	}
	s.counts.Read(service, append(all, s.early...))
	return nil
}

// readings reads the ports of some pods.
func (s *scene) readings(some func(*pod) bool) ([]scrape.Reading, error) {
	held := map[*pod]int{}
	for _, p := range s.owner {
		held[p]++
	}
	var out []scrape.Reading
	for _, p := range s.pods {
		if !some(p) || p.failed {
			continue
		}
		p.settle(held[p])
		for _, e := range []*endpoint{p.app, p.entry} {
			if e == nil {
				continue
			}
			r := scrape.Reading{Target: scrape.Target{Pod: p.uid, Container: string(p.uid), Entry: e == p.entry}, At: s.now()}
			if e == p.app {
				r.Target.Container = strconv.Itoa(p.restarts)
			}
			var err error
			switch {
			case e == p.app && p.mute: // It answers, with nothing in it.
			case e == p.app && s.at < p.down:
				r.Err = &scrape.ReadError{Class: scrape.Refused, Err: errDown}
			case s.asText:
				r.Exposition, err = e.parse()
			default:
				r.Exposition = e.read()
			}
			if err != nil {
				return nil, err
			}
			out = append(out, r)
		}
	}
	return out, nil
}
