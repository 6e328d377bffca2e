// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"math"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

// side is one of the two Revisions.
type side int

// The sides, in order of generation.
const (
	baseline side = iota
	canary
)

var (
	revisions = [2]types.UID{"uid-of-cart-00001", "uid-of-cart-00002"}
	names     = [2]string{"cart-00001", "cart-00002"}
)

// pod is a pod of one side. It counts as real pods do: queue-proxy what enters, the application what it handles.
type pod struct {
	uid   types.UID
	side  side
	index int
	// born is when it started, in seconds since the split, and became ready at once.
	born float64
	// process is the number of the application's process; cold is when that process began.
	process int
	cold    float64
	down    float64
	oom     bool
	failed  bool
	// gone means that it was removed.
	gone     bool
	restarts int
	// looping means that it ended twice within a while. disrupted means that its node is drained.
	looping, disrupted bool
	// mute means that the application exports nothing any more.
	mute bool

	entry, app *endpoint
	byCode     map[string]*entered
	// ok is the usual entry of byCode.
	ok      *entered
	handled *handled
	// fate is what happens to the requests of this second.
	fate fate
}

// entered is what queue-proxy counts of one status code.
type entered struct {
	http    *histogram
	serving *series
}

// handled is what the application counts by the neutral contract.
type handled struct {
	started   *series
	durations *histogram
	finished  map[finishedKey]*series
	shards    map[shardKey]*series
	slow      map[int]*series
	held      *series
}

type finishedKey struct {
	outcome string
	at      side
}

type shardKey struct {
	shard   int
	outcome string
}

const entity = "cart"

func newPod(s *scene, of side, index int, born float64) *pod {
	s.made++
	p := &pod{
		uid: types.UID(strconv.Itoa(s.made) + "-pod-of-" + names[of]), side: of, index: index, born: born, cold: born, down: born,
		byCode: map[string]*entered{}, entry: newEndpoint(s.entryReader, s.unix(born)),
	}
	if s.sharded() {
		p.app = newEndpoint(s.appReader, s.unix(born))
		p.begin()
	}
	return p
}

// begin has a new process of the application count from zero.
func (p *pod) begin() {
	of := label{"entity_type", entity}
	p.handled = &handled{
		started:  p.app.add("stateful_requests_started_total", of),
		finished: map[finishedKey]*series{}, shards: map[shardKey]*series{}, slow: map[int]*series{},
		held: p.app.add("stateful_shards", of),
	}
	p.handled.durations = p.app.histogram("stateful_request_duration_seconds", appBounds, of)
	p.finished(mapping.OK, baseline)
	p.finished(mapping.Error, baseline)
}

func (p *pod) finished(outcome string, at side) *series {
	k := finishedKey{outcome, at}
	s := p.handled.finished[k]
	if s == nil {
		s = p.app.add("stateful_requests_total", label{"entity_type", entity}, label{"outcome", outcome}, label{"entry_revision", names[at]})
		p.handled.finished[k] = s
	}
	return s
}

// enter counts a request that entered here and has ended.
func (p *pod) enter(code string, took float64) {
	e := p.ok
	if code != "200" {
		e = p.byCode[code]
	}
	if e == nil {
		e = &entered{
			http: p.entry.histogram("http_server_request_duration_seconds", entryBounds,
				label{"http_request_method", "GET"}, label{"http_response_status_code", code}, label{"network_protocol_name", "http"},
				label{"network_protocol_version", "1.1"}, label{"url_scheme", "http"}),
			serving: p.entry.add("kn_serving_invocation_duration_seconds_count", label{"http_response_status_code", code}),
		}
		p.byCode[code] = e
		p.ok = p.byCode["200"]
	}
	e.http.observe(took)
	e.serving.value++
}

// handle counts a request of a shard that this pod has handled.
func (p *pod) handle(shard int, at side, code string, took float64) {
	outcome := mapping.OK
	switch {
	case code == timedOut:
		outcome = mapping.Timeout
	case code[0] == '5':
		outcome = mapping.Error
	}
	p.finished(outcome, at).value++
	p.handled.durations.observe(took)
	k := shardKey{shard, outcome}
	if p.handled.shards[k] == nil {
		p.handled.shards[k] = p.app.add("stateful_shard_requests_total",
			label{"entity_type", entity}, label{"shard", strconv.Itoa(shard)}, label{"outcome", outcome})
	}
	p.handled.shards[k].value++
	if took <= slowFrom {
		return
	}
	if p.handled.slow[shard] == nil {
		p.handled.slow[shard] = p.app.add("stateful_shard_slow_requests_total",
			label{"entity_type", entity}, label{"shard", strconv.Itoa(shard)})
	}
	p.handled.slow[shard].value++
}

// served has queue-proxy count what the pod did before anybody watched: a process usually counts for days.
func (p *pod) served(requests float64, f fate) {
	for code, n := range map[string]float64{"200": requests * (1 - f.fails), cmp.Or(f.code, "500"): requests * f.fails} {
		if n = math.Round(n); n == 0 {
			continue
		}
		p.enter(code, usualTime)
		e := p.byCode[code]
		e.http.buckets[bucketOf(entryBounds, usualTime)] += n - 1
		e.http.sum.value += (n - 1) * usualTime
		e.http.count.value += n - 1
		e.serving.value += n - 1
	}
}

// settle completes what is about to be read.
func (p *pod) settle(shards int) {
	for _, e := range p.byCode {
		e.http.settle()
	}
	if p.app != nil {
		p.handled.durations.settle()
		p.handled.held.value = float64(shards)
	}
}

// facts are what the controller knows of the pod.
func (p *pod) facts(s *scene) attribution.Pod {
	return attribution.Pod{
		UID: p.uid, Revision: revisions[p.side], Restarts: p.restarts,
		OOMKilled: p.oom, Failed: p.failed, Ready: p.serves(s.at),
		Started: s.time(p.cold), ReadySince: s.time(p.cold),
		Began: s.time(p.born), Running: !p.failed, CrashLoop: p.looping && s.at < p.down, Disrupted: p.disrupted,
	}
}

// serves reports whether it takes requests.
func (p *pod) serves(at float64) bool { return at >= p.born && at >= p.down && !p.failed }

// loopWithin is how long a container must run until the kubelet starts it again at once, in seconds.
const loopWithin = 600

// restart ends the process of the application; another one serves after some seconds.
func (p *pod) restart(s *scene, after float64, oom bool) {
	p.process++
	p.restarts++
	p.looping = p.process > 1 && s.at-p.cold < loopWithin
	p.oom, p.down, p.cold = oom, s.at+after, s.at+after
	if p.app != nil {
		p.app.restart(s.unix(s.at + after))
		p.begin()
	}
}
