package gaterun

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
)

// podName tells pods of one Service apart, and is short: the first part of their UID.
const podName = 13

// pods of a Revision: what each did since the last look.
func (c counted) pods(revision types.UID) map[string]judge.Arm {
	out := map[string]judge.Arm{}
	for uid, pod := range c.delta.Pods {
		if pod.Revision != revision {
			continue
		}
		s := pod.Share(c.stateful(revision))
		out[string(uid)[:min(podName, len(uid))]] = judge.Arm{
			Finished: s.Finished, Errors: s.Errors, Entered: s.Entered, EntryErrors: s.EntryErrors, Above: s.Above,
		}
	}
	return out
}

// past of the pods of a Revision, as judging wants it.
func past(of []attribution.PodPast) []judge.PodPast {
	out := make([]judge.PodPast, 0, len(of))
	for _, p := range of {
		one := judge.PodPast{
			Watched: p.Watched, Errors: judge.Expected(p.Errors), EntryErrors: judge.Expected(p.EntryErrors), Above: map[float64]judge.Expected{},
		}
		for bound, e := range p.Above {
			one.Above[bound] = judge.Expected(e)
		}
		out = append(out, one)
	}
	return out
}
