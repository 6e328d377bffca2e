// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// Verdict is a gate's verdict on a canary of the Service: which run reached it, and what an event says of it.
// The journal stores it, so it has the summary of a judgement only.
type Verdict struct {
	// Run is the id of the gate run; each is announced once.
	Run string `json:"run"`
	// Gate is the name of the CanaryGate, empty if the run defined it inline.
	Gate string `json:"gate,omitempty"`
	// Verdict is Pass, Warn, Fail, Inconclusive, Superseded or Error.
	Verdict verdict.Verdict `json:"verdict"`
	Reasons []string        `json:"reasons,omitempty"`
	Message string          `json:"message,omitempty"`
	// DryRun: the verdict blocked nothing. Cancelled: the run was stopped from outside.
	DryRun    bool `json:"dryRun,omitempty"`
	Cancelled bool `json:"cancelled,omitempty"`
	// Canary and Baseline are names of Revisions.
	Canary   string `json:"canary,omitempty"`
	Baseline string `json:"baseline,omitempty"`
	// Summary holds the figures.
	verdict.Summary
	// Started and Completed delimit the run.
	Started   time.Time `json:"started"`
	Completed time.Time `json:"completed"`
}

// maxJudged bounds the announced runs that are kept. Finished runs reappear in snapshots only for a
// while.
const maxJudged = 64

// judged announces each verdict once.
func (b *builder) judged() {
	for i := range b.s.Verdicts {
		v := b.s.Verdicts[i]
		if v.Run == "" || slices.Contains(b.m.Judged, v.Run) {
			continue
		}
		b.m.Judged = append(slices.Clone(b.m.Judged), v.Run)
		b.m.Judged = b.m.Judged[max(0, len(b.m.Judged)-maxJudged):]
		t := Transition{Type: Judged, Revision: b.m.revision(v.Canary), Previous: b.m.revision(v.Baseline), Verdict: &v}
		if k, known := b.m.Revisions[v.Canary]; known && k.Arrived != nil {
			t.Links = k.Arrived.link(LinkPath)
		} else {
			t.Links = b.m.Last.link(LinkPath)
		}
		b.emit(t)
	}
}

// Belated announces the verdicts of runs that ended when their Service was gone. It announces nothing else.
func Belated(m Memory, verdicts []Verdict, at time.Time) Result {
	b := builder{m: m.clone(), s: Snapshot{Verdicts: verdicts}, at: m.journalTime(at)}
	b.waits = &b.m.Waits
	b.judged()
	return b.result()
}
