// SPDX-License-Identifier: Apache-2.0

// Package stage is a Knative Service for tests: what it is, what its pods count, and
// who reads them.
//
// Its invariant: what its pods count outlives whoever reads them, as real pods do.
package stage

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// The Revisions of every stage, by UID, each with one pod.
const (
	Baseline types.UID = "uid-1"
	Canary   types.UID = "uid-2"
)

var errNoEntry = errors.New("connection refused")

// Stage is one Service.
type Stage struct {
	Key types.NamespacedName
	now func() time.Time

	mu      sync.Mutex
	service *gaterun.Service
	counts  map[types.UID]map[mapping.Key]float64
	// entered is what queue-proxy counts of stateful Revisions.
	entered    map[types.UID]map[mapping.Key]float64
	attributed *attribution.Counts
	unknown    bool
	silent     bool
	noEntry    bool
}

// New returns a Service with two Revisions, NAME-00001 with 90 % of the traffic and
// NAME-00002 with 10 %, that is read by one process.
func New(key types.NamespacedName, stateful bool, now func() time.Time) *Stage {
	s := &Stage{
		Key: key, now: now, counts: map[types.UID]map[mapping.Key]float64{Baseline: {}, Canary: {}},
		entered: map[types.UID]map[mapping.Key]float64{},
	}
	first, second, runtime := key.Name+"-00001", key.Name+"-00002", map[bool]string{true: "pekko"}[stateful]
	s.service = &gaterun.Service{UID: types.UID("uid-of-" + key.Name), Settled: true, Route: lifecycle.Route{Effective: true}, Revisions: map[string]*lifecycle.Revision{
		first:  {Name: first, UID: Baseline, Generation: 1, Stateful: runtime},
		second: {Name: second, UID: Canary, Generation: 2, Stateful: runtime},
	}}
	s.Split(10)
	s.Process()
	return s
}

// revisions returns those of the Service, by name.
func (s *Stage) revisions() []*lifecycle.Revision {
	return slices.SortedFunc(maps.Values(s.service.Revisions), func(a, b *lifecycle.Revision) int { return cmp.Compare(a.Name, b.Name) })
}

// Process has another process read the pods from now on.
func (s *Stage) Process() {
	s.mu.Lock()
	s.attributed = attribution.NewCounts(func(types.NamespacedName) attribution.Facts { return s.facts() }, s.now)
	s.attributed.Begin(s.Key, false)
	s.mu.Unlock()
	s.Read()
}

// Unread has nobody read the pods from now on.
func (s *Stage) Unread() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attributed.End(s.Key)
}

func (s *Stage) facts() attribution.Facts {
	f := attribution.Facts{}
	for _, r := range s.revisions() {
		f.Revisions = append(f.Revisions, attribution.Revision{Revision: r, Configuration: s.Key.Name})
		f.Pods = append(f.Pods, attribution.Pod{UID: "pod-of-" + r.UID, Revision: r.UID, Ready: true})
	}
	return f
}

// Serve has a Revision handle requests, and what it counts be read.
func (s *Stage) Serve(revision types.UID, ok, failed float64) {
	s.mu.Lock()
	counts := s.counts[revision]
	stateful := s.revisions()[0].Stateful != ""
	good, bad := mapping.Key{Figure: mapping.EntryHTTP, Outcome: "200"}, mapping.Key{Figure: mapping.EntryHTTP, Outcome: "500"}
	bucket := mapping.EntryDuration
	if stateful {
		good, bad = mapping.Key{Figure: mapping.Finished, Outcome: mapping.OK}, mapping.Key{Figure: mapping.Finished, Outcome: mapping.Error}
		bucket = mapping.Duration
		counts[mapping.Key{Figure: mapping.Started}] += ok + failed
		counts[mapping.Key{Figure: mapping.ShardFinished, Outcome: mapping.OK, Shard: "7"}] += ok
		counts[mapping.Key{Figure: mapping.ShardFinished, Outcome: mapping.Error, Shard: "7"}] += failed
	} else {
		counts[mapping.Key{Figure: mapping.EntryServing, Outcome: "200"}] += ok
		counts[mapping.Key{Figure: mapping.EntryServing, Outcome: "500"}] += failed
	}
	counts[good] += ok
	counts[bad] += failed
	for _, bound := range append(attribution.Bounds(), math.Inf(1)) {
		counts[mapping.Key{Figure: bucket, Bound: bound}] += ok + failed
	}
	s.mu.Unlock()
	s.Read()
}

// Hang has a stateful Revision begin requests that it does not finish. What it counts is read
// when it serves others.
func (s *Stage) Hang(revision types.UID, n float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[revision][mapping.Key{Figure: mapping.Started}] += n
}

// Enter has requests enter at a stateful Revision, and what its queue-proxy counts be read.
func (s *Stage) Enter(revision types.UID, ok, failed float64) {
	s.mu.Lock()
	if s.entered[revision] == nil {
		s.entered[revision] = map[mapping.Key]float64{}
	}
	for _, figure := range []mapping.Figure{mapping.EntryHTTP, mapping.EntryServing} {
		s.entered[revision][mapping.Key{Figure: figure, Outcome: "200"}] += ok
		s.entered[revision][mapping.Key{Figure: figure, Outcome: "500"}] += failed
	}
	s.mu.Unlock()
	s.Read()
}

// Answer has requests that enter at a Revision be answered with a status code, at once, and what is
// counted of that be read.
func (s *Stage) Answer(revision types.UID, code string, n float64) {
	s.mu.Lock()
	counts := s.counts[revision]
	if s.revisions()[0].Stateful != "" {
		if s.entered[revision] == nil {
			s.entered[revision] = map[mapping.Key]float64{}
		}
		counts = s.entered[revision]
	}
	for _, figure := range []mapping.Figure{mapping.EntryHTTP, mapping.EntryServing} {
		counts[mapping.Key{Figure: figure, Outcome: code}] += n
	}
	for _, bound := range append(attribution.Bounds(), math.Inf(1)) {
		counts[mapping.Key{Figure: mapping.EntryDuration, Bound: bound}] += n
	}
	s.mu.Unlock()
	s.Read()
}

// NoEntry has queue-proxy export nothing, as without request-metrics-protocol.
func (s *Stage) NoEntry() {
	s.mu.Lock()
	s.noEntry = true
	s.mu.Unlock()
	s.Read()
}

// Silence has the pods not count anything.
func (s *Stage) Silence() {
	s.mu.Lock()
	s.silent = true
	s.mu.Unlock()
	s.Process()
}

// Read has all pods be read.
func (s *Stage) Read() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []scrape.Reading
	for _, r := range s.revisions() {
		values := map[mapping.Key]float64{}
		if s.silent {
			all = append(all, scrape.Reading{Target: scrape.Target{Pod: "pod-of-" + r.UID, Entry: r.Stateful == ""}, At: s.now()})
			continue
		}
		for k, v := range s.counts[r.UID] {
			values[k] = v
		}
		name := mapping.EntryName
		if r.Stateful != "" {
			name = mapping.NeutralName
		}
		all = append(all, scrape.Reading{
			Target: scrape.Target{Pod: "pod-of-" + r.UID, Entry: r.Stateful == ""}, At: s.now(),
			Exposition: scrape.Exposition{Start: 1e9, Sources: []scrape.Source{{Name: name, Values: values}}},
		})
	}
	for _, r := range s.revisions() {
		if s.noEntry {
			all = append(all, scrape.Reading{Target: scrape.Target{Pod: "pod-of-" + r.UID, Entry: true}, At: s.now(), Err: errNoEntry})
		}
		if counts := s.entered[r.UID]; counts != nil {
			all = append(all, scrape.Reading{
				Target: scrape.Target{Pod: "pod-of-" + r.UID, Entry: true}, At: s.now(),
				Exposition: scrape.Exposition{Start: 1e9, Sources: []scrape.Source{{Name: mapping.EntryName, Values: maps.Clone(counts)}}},
			})
		}
	}
	s.attributed.Read(s.Key, all)
}

// Change changes the Service.
func (s *Stage) Change(change func(*gaterun.Service)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := *s.service
	was.Traffic, was.Revisions = slices.Clone(was.Traffic), maps.Clone(was.Revisions)
	change(&was)
	s.service = &was
}

// Split gives the second Revision a share, and the first one the rest.
func (s *Stage) Split(percent int64) {
	s.Change(func(was *gaterun.Service) {
		was.Traffic = lifecycle.SplitOf(map[string]int64{s.Key.Name + "-00001": 100 - percent, s.Key.Name + "-00002": percent})
	})
}

// Forget has it not be known which Services there are, or be known again.
func (s *Stage) Forget(unknown bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unknown = unknown
}

// Service implements gate.Options.Service.
func (s *Stage) Service(key types.NamespacedName) (*gaterun.Service, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key != s.Key {
		return nil, !s.unknown
	}
	return s.service, !s.unknown
}

// Snapshot implements gaterun.Counts.
func (s *Stage) Snapshot(key types.NamespacedName) (attribution.Snapshot, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attributed.Snapshot(key)
}

// Since implements gaterun.Counts.
func (s *Stage) Since(key types.NamespacedName, from attribution.Snapshot) (attribution.Delta, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attributed.Since(key, from)
}

// Figure implements gaterun.Counts.
func (s *Stage) Figure(key types.NamespacedName) (attribution.Figures, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attributed.Figure(key)
}

var _ gaterun.Counts = (*Stage)(nil)

// Analyze is a simple judge: a Fail from ten errors of the canary on, a Pass as soon as
// both sides have what they need. What it knows stands in the run, as with the real one.
func Analyze(r *judge.Run, p judge.Plan, w judge.Window) verdict.Judgement {
	j := r.Last
	if j.Verdict != verdict.Running {
		return j
	}
	j.Canary.Requests += int64(w.Canary.Finished)
	j.Baseline.Requests += int64(w.Baseline.Finished)
	j.Score += w.Canary.Errors
	j.Canary.Missing, j.Baseline.Missing = max(0, int64(p.MinCanary)-j.Canary.Requests), max(0, int64(p.MinBaseline)-j.Baseline.Requests)
	switch {
	case j.Score >= 10:
		j.Verdict, j.Reasons, j.Message = verdict.Fail, []verdict.Reason{verdict.RelativeRegression}, "the canary fails"
	case j.Canary.Missing+j.Baseline.Missing == 0:
		j.Verdict, j.Reasons, j.Message = verdict.Pass, []verdict.Reason{verdict.NonInferior}, "the canary is no worse"
	case w.To.Sub(r.Start) >= p.Deadline:
		j.Verdict, j.Reasons, j.Message = verdict.Inconclusive, []verdict.Reason{verdict.InsufficientSample, verdict.Timeout}, "too few requests"
	}
	r.Last = j
	return j
}
