// SPDX-License-Identifier: Apache-2.0

package gaterun

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

// podNameLength shortens a pod's UID. It still tells the pods of one Service apart.
const podNameLength = 13

func podName(uid types.UID) string { return string(uid)[:min(podNameLength, len(uid))] }

// pods returns what each grown pod of a Revision did since the last analysis.
func (b windowBuilder) pods(revision types.UID) map[string]judge.Arm {
	out := map[string]judge.Arm{}
	for uid, pod := range b.delta.Pods {
		if pod.Revision == revision && !b.isYoung(pod.Since) {
			out[podName(uid)] = b.podArm(pod)
		}
	}
	return out
}

// young returns what a Revision's young pods did.
func (b windowBuilder) young(revision types.UID) judge.Arm {
	var out judge.Arm
	for _, pod := range b.delta.Pods {
		if pod.Revision == revision && b.isYoung(pod.Since) {
			out.Add(b.podArm(pod))
		}
	}
	return out
}

// isYoung reports whether what began at a moment was younger than the gate's warm-up when the window began. Nothing
// that happens in the window changes that, so it never leaves requests out for how they end. A pod of unknown age is
// not young.
func (b windowBuilder) isYoung(since time.Time) bool {
	return !since.IsZero() && b.from.Sub(since) < b.warmup
}

// lives returns how the pods of both sides fared since the last analysis. What counts here is the age of a pod, not
// that of its containers.
func (b windowBuilder) lives(canary, baseline types.UID) []judge.Life {
	var out []judge.Life
	for _, uid := range slices.Sorted(maps.Keys(b.delta.Lives)) {
		is := b.delta.Lives[uid]
		if is.Revision != canary && is.Revision != baseline {
			continue
		}
		out = append(out, judge.Life{
			Pod: podName(uid), Canary: is.Revision == canary, Young: b.isYoung(is.Began),
			Ran: is.Ran, Restarts: float64(is.Restarts), CrashLoop: is.CrashLoop,
		})
	}
	return out
}

func (b windowBuilder) podArm(pod attribution.PodTally) judge.Arm {
	s := pod.Share(b.stateful(pod.Revision))
	buckets, _ := pod.Durations(b.stateful(pod.Revision))
	above := buckets.Above()
	maps.Copy(above, s.Above) // of buckets in which nothing was counted, too
	return judge.Arm{
		Finished: s.Finished, Errors: s.Errors, Entered: s.Entered, EntryErrors: s.EntryErrors,
		Untold: pod.Handled(b.stateful(pod.Revision))[mapping.Unknown], EntryUntold: pod.Handled(false)[mapping.Unknown],
		Untimed: max(0, s.Finished-buckets.Total()), Codes: pod.Codes(), Above: above,
	}
}

// grownShards returns what the shards of a Revision did, without its young pods.
func (b windowBuilder) grownShards(revision types.UID) map[attribution.ShardKey]attribution.Shard {
	out := maps.Clone(b.delta.Revisions[revision].Shards)
	for _, pod := range b.delta.Pods {
		if pod.Revision != revision || !b.isYoung(pod.Since) {
			continue
		}
		for id, s := range pod.Shards {
			if all, counted := out[id]; counted {
				out[id] = all.Without(s)
			}
		}
	}
	return out
}

// past converts the history of a Revision's pods to the types of package judge.
func past(of []attribution.PodPast) []judge.PodPast {
	out := make([]judge.PodPast, 0, len(of))
	for _, p := range of {
		one := judge.PodPast{
			Watched: p.Watched, Errors: judge.Expected(p.Errors), EntryErrors: judge.Expected(p.EntryErrors),
			ClientErrors: judge.Expected(p.ClientErrors), Above: map[float64]judge.Expected{},
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
		Watched: of.Watched, Errors: judge.Ratio(of.Errors), EntryErrors: judge.Ratio(of.EntryErrors),
		ClientErrors: judge.Ratio(of.ClientErrors), Above: map[float64]judge.Ratio{},
	}
	for bound, r := range of.Above {
		out.Above[bound] = judge.Ratio(r)
	}
	return out
}
