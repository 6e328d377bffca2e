// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/rivals/argo"
	"github.com/knative-cdevents/knative-cdevents/canary/rivals/flagger"
	"github.com/knative-cdevents/knative-cdevents/canary/rivals/kayenta"
)

const (
	// longestRival is how long the slowest of them takes: Argo's rollout.
	longestRival = 40 * time.Minute
	// kayentaFor is how long Kayenta compares, as long as a gate by default, in steps of a minute.
	kayentaFor = 30 * time.Minute
)

// rivals are the other tools, by the names of their columns.
var rivals = []struct {
	name   string
	judges func(s *scene) verdict.Verdict
}{
	{"Flagger", (*scene).flagger},
	{"Argo Rollouts", (*scene).argo},
	{"Kayenta", (*scene).kayenta},
}

// rivals returns what other tools say of the same requests. All of them see what the gateway sees.
func (s *scene) rivals() []verdict.Verdict {
	out := make([]verdict.Verdict, len(rivals))
	for i, r := range rivals {
		out[i] = r.judges(s)
	}
	return out
}

func (s *scene) flagger() verdict.Verdict {
	end, _ := flagger.Documented().Run(func(from, to time.Duration) (flagger.Window, bool) {
		c := s.gate[canary].between(from, to)
		return flagger.Window{Requests: c.requests, Failed: c.failed, Bounds: entryBounds, Buckets: c.buckets[:]}, true
	})
	if end == flagger.Succeeded {
		return verdict.Pass
	}
	return verdict.Fail
}

func (s *scene) argo() verdict.Verdict {
	end, _ := argo.Documented().Run(func(at time.Duration) (float64, bool) {
		return 1 - s.gate[canary].between(at-scrapeEvery*time.Second, at).partFailed(), true
	})
	if end == argo.Successful {
		return verdict.Pass
	}
	return verdict.Fail
}

// kayenta compares the part of errors and the mean duration. A step without requests has no value.
func (s *scene) kayenta() verdict.Verdict {
	var errors, durations [2][]float64
	for to := time.Minute; to <= kayentaFor; to += time.Minute {
		for _, one := range []side{baseline, canary} {
			if c := s.gate[one].between(to-time.Minute, to); c.requests > 0 {
				errors[one] = append(errors[one], 100*c.failed/c.requests)
				durations[one] = append(durations[one], 1000*c.seconds/c.requests)
			}
		}
	}
	score := kayenta.Score(kayenta.Classify(errors[baseline], errors[canary]), kayenta.Classify(durations[baseline], durations[canary]))
	switch kayenta.Documented().Of(score) {
	case kayenta.Passed:
		return verdict.Pass
	case kayenta.Marginal:
		return verdict.Warn
	case kayenta.Failed:
	}
	return verdict.Fail
}
