// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

// Shard is what one shard's entities have finished.
type Shard struct {
	OK, Error, Timeout, Unknown float64
	// Slow counts requests above 0.5 s, whatever their outcome.
	Slow float64
}

// Finished returns the requests of all outcomes.
func (s Shard) Finished() float64 { return s.OK + s.Error + s.Timeout + s.Unknown }

// ShardKey names a shard.
type ShardKey struct{ Entity, Shard string }

// Tally is what a Revision has counted over all its pods, including removed ones, since this process
// began to count. Nothing in it ever decreases.
type Tally struct {
	// Started and Finished count requests where they are handled; Finished by outcome.
	Started  float64
	Finished map[string]float64
	// EnteredAt is Finished by the name of the Revision where the request entered, if the application
	// exports it.
	EnteredAt map[string]float64
	// Buckets is a cumulative histogram by upper bound in seconds; DurationSum is the sum.
	Buckets     map[float64]float64
	DurationSum float64
	// Shards serve the judge; they are never exported.
	Shards map[ShardKey]Shard
	// Before is what each shard had done on any Revision when this Revision was last known not to have
	// handled a request of a shard; nil if that holds for all counts so far. It is final once set, and
	// not part of the JSON.
	Before map[ShardKey]Shard

	// Entered counts requests by the status code that queue-proxy saw, and by Unknown if it cannot see
	// the outcome.
	Entered map[string]float64
	// Cut counts requests that only Serving's own metric family saw fail.
	Cut float64
	// Forwarded counts requests that reached the application in the pod where they entered.
	Forwarded        float64
	EntryBuckets     map[float64]float64
	EntryDurationSum float64

	// Lost counts requests whose process ended before it finished them.
	Lost float64
	// Restarts by reason.
	Restarts map[string]float64
}

// newTally returns a Tally without counts. Its maps are made when something is counted.
func newTally() *Tally { return &Tally{} }

// plus adds to one of a Tally's maps.
func plus[K comparable](m *map[K]float64, k K, n float64) {
	if *m == nil {
		*m = map[K]float64{}
	}
	(*m)[k] += n
}

func (t *Tally) add(deltas map[mapping.Key]float64) {
	for k, d := range deltas {
		switch k.Figure {
		case mapping.Started:
			t.Started += d
		case mapping.Finished:
			plus(&t.Finished, k.Outcome, d)
		case mapping.EnteredAt:
			plus(&t.EnteredAt, k.Outcome, d)
		case mapping.Duration:
			plus(&t.Buckets, k.Bound, d)
		case mapping.DurationSum:
			t.DurationSum += d
		case mapping.ShardFinished, mapping.ShardSlow:
			t.addShard(k, d)
		case mapping.EntryHTTP:
			plus(&t.Entered, k.Outcome, d)
		case mapping.EntryServing:
			if k.Outcome == "" || k.Outcome[0] != '1' { // a connection is no request
				t.Forwarded += d
			}
		case mapping.EntryDuration:
			plus(&t.EntryBuckets, k.Bound, d)
		case mapping.EntryDurationSum:
			t.EntryDurationSum += d
		}
	}
}

func (t *Tally) addShard(k mapping.Key, d float64) {
	id := ShardKey{Entity: k.Entity, Shard: k.Shard}
	s := t.Shards[id]
	switch {
	case k.Figure == mapping.ShardSlow:
		s.Slow += d
	case k.Outcome == mapping.OK:
		s.OK += d
	case k.Outcome == mapping.Error:
		s.Error += d
	case k.Outcome == mapping.Timeout:
		s.Timeout += d
	default:
		s.Unknown += d
	}
	if t.Shards == nil {
		t.Shards = map[ShardKey]Shard{}
	}
	t.Shards[id] = s
}

// Total returns all finished requests.
func (t *Tally) Total() float64 { return sum(t.Finished) }

func sum[K comparable](m map[K]float64) float64 {
	total := 0.0
	for _, v := range m {
		total += v
	}
	return total
}

// Handled returns finished requests by outcome, counted where they are handled if the Revision is
// stateful and where they enter otherwise.
func (t *Tally) Handled(stateful bool) map[string]float64 {
	if stateful {
		return t.Finished
	}
	out := map[string]float64{}
	for code, n := range t.Codes() {
		out[outcomeOf(code)] += n
	}
	return out
}

// Codes returns the requests that entered, by status code, and by Unknown if it is not known. Requests
// that broke off count as 500. It leaves out 1xx, because a connection is no request.
func (t *Tally) Codes() map[string]float64 {
	out := make(map[string]float64, len(t.Entered))
	for code, n := range t.Entered {
		if code[0] != '1' {
			out[code] = n
		}
	}
	if t.Cut > 0 {
		out[internalServerError] += t.Cut
	}
	return out
}

// clientErrors returns how many entered requests had a 4xx code, and how many had any.
func (t *Tally) clientErrors() (bad, all float64) {
	for code, n := range t.Codes() {
		if code == mapping.Unknown {
			continue
		}
		if all += n; code[0] == '4' {
			bad += n
		}
	}
	return bad, all
}

// outcomeOf returns the outcome of a request that was handled where it entered. A client's mistake is
// not a failure of the Revision.
func outcomeOf(code string) string {
	switch {
	case code == "504":
		return mapping.Timeout
	case code[0] == '5':
		return mapping.Error
	case code[0] >= '2' && code[0] <= '4':
		return mapping.OK
	}
	return mapping.Unknown
}
