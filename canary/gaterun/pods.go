package gaterun

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
)

// podNameLength shortens a pod's UID. It still tells the pods of one Service apart.
const podNameLength = 13

// pods returns what each pod of a Revision did since the last analysis.
func (b windowBuilder) pods(revision types.UID) map[string]judge.Arm {
	out := map[string]judge.Arm{}
	for uid, pod := range b.delta.Pods {
		if pod.Revision != revision {
			continue
		}
		s := pod.Share(b.stateful(revision))
		out[string(uid)[:min(podNameLength, len(uid))]] = judge.Arm{
			Finished: s.Finished, Errors: s.Errors, Entered: s.Entered, EntryErrors: s.EntryErrors, Above: s.Above,
		}
	}
	return out
}

// past converts the history of a Revision's pods to the types of package judge.
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

// level converts how bad a Revision was to the type of package judge.
func level(of attribution.Level) judge.Level {
	out := judge.Level{
		Watched: of.Watched, Errors: judge.Ratio(of.Errors), EntryErrors: judge.Ratio(of.EntryErrors), Above: map[float64]judge.Ratio{},
	}
	for bound, r := range of.Above {
		out.Above[bound] = judge.Ratio(r)
	}
	return out
}
