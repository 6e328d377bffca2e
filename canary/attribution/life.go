// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Life is how a pod fared between two moments. It comes from what Kubernetes reports, so no reading of the pod is
// needed.
type Life struct {
	Revision types.UID
	// Began is when the kubelet accepted the pod; zero if that is not known.
	Began time.Time
	// Ran is for how long its containers ran. The time in which one is down until it is started again is part of it, so
	// it does not depend on how often that happens.
	Ran time.Duration
	// Restarts counts the restarts of its user containers, and the end of a pod that failed. It leaves out what a
	// disruption caused.
	Restarts int
	// CrashLoop is as in Pod, at the later moment.
	CrashLoop bool
}

// livesSince returns how each pod fared since a snapshot of its Service, including those that have gone meanwhile.
func (s *Snapshot) livesSince(from Snapshot) map[types.UID]Life {
	out := map[types.UID]Life{}
	for uid, is := range s.gone {
		if is.left.After(from.At) {
			out[uid] = is.lifeSince(from, uid, s.epoch, is.left)
		}
	}
	for uid, is := range s.pods {
		if !is.Claimed {
			out[uid] = is.lifeSince(from, uid, s.epoch, s.At)
		}
	}
	return out
}

func (r raw) lifeSince(from Snapshot, uid types.UID, epoch string, until time.Time) Life {
	out := Life{Revision: r.Revision, Began: r.facts.Began, CrashLoop: r.facts.CrashLoop}
	was, known := from.pods[uid]
	switch {
	case known && !was.Claimed:
	case !known && (r.young || r.facts.Began.After(from.At)):
		was = raw{} // It began after that, and so did all that happened to it.
	default:
		was = raw{Restarts: r.Restarts, Failed: r.Failed} // When it happened is not known.
	}
	// What another process knew of the end of a pod may be an earlier release's, which did not say.
	ended := r.Failed && !was.Failed && from.epoch == epoch
	if !r.facts.Disrupted {
		out.Restarts = max(0, r.Restarts-was.Restarts)
		if ended {
			out.Restarts++
		}
	}
	if r.facts.Running || ended {
		out.Ran = max(0, until.Sub(later(from.At, r.facts.Began)))
	}
	return out
}

// Lived returns how often the existing pods of a Revision have restarted since they began, and for how long they have
// run since then. It leaves out pods that do not run, and those of which it is not known when they began.
func (s *Snapshot) Lived(revision types.UID) (restarts int, ran time.Duration) {
	for _, is := range s.pods {
		if is.Revision == revision && is.facts.Running && !is.facts.Began.IsZero() {
			restarts, ran = restarts+is.Restarts, ran+max(0, s.At.Sub(is.facts.Began))
		}
	}
	return restarts, ran
}
