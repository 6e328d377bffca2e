// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// judged is one completed run of a gate, as the gate's status contains it.
type judged struct {
	run    string
	key    types.NamespacedName
	uid    types.UID
	canary string
	// unmade means that a backup without it was restored.
	unmade bool
}

// judge completes a run of a gate for the newest Revision.
func (c *cluster) judge(s *service) {
	c.serial++
	c.runs = append(c.runs, &judged{run: fmt.Sprintf("run-%d", c.serial), key: s.key, uid: s.uid, canary: s.revisions[len(s.revisions)-1]})
}

// judging lets the leader report a run that it has not reported yet, as a gate that knows
// the Service does.
func (p *process) judging() bool {
	for _, r := range p.w.cluster.runs {
		if r.unmade || p.judged[r.run] || !p.leads || len(p.kind.Cached(r.key)) == 0 {
			continue
		}
		p.judged[r.run] = true
		p.verdicts.Reached(r.key, r.uid, lifecycle.Verdict{Run: r.run, Verdict: "Pass", Canary: r.canary, Started: p.w.cluster.now, Completed: p.w.cluster.now})
		return true
	}
	return false
}

// judgeRuns checks that each verdict is announced once, and that no verdict on an existing
// Service is missing.
func (w *world) judgeRuns(s *service, mine []delivered, most int) {
	told := map[string]int{}
	for _, d := range mine {
		if short(d.typ) == "testcaserun.finished" {
			told[d.subject[strings.LastIndex(d.subject, "/")+1:]]++
		}
	}
	for _, r := range w.cluster.runs {
		if r.uid != s.uid {
			continue
		}
		switch n := told[r.run]; {
		case n > most:
			w.fail("%s: %d events of verdict %s", s.uid, n, r.run)
		case n == 0 && !r.unmade && !s.deleted && s.restored == 0:
			w.fail("%s: no event announced verdict %s", s.uid, r.run)
		}
		delete(told, r.run)
	}
	if len(told) > 0 {
		w.fail("%s: verdicts that no gate has reached: %v", s.uid, told)
	}
}

// unjudge removes the runs that a backup does not have.
func (c *cluster) unjudge(known int) {
	for _, r := range c.runs[known:] {
		r.unmade = true
	}
}
