// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"strings"
)

// replay returns what a receiver concludes from the events of a Service alone: its primary
// Revision, and the artifact that this Revision runs.
func replay(mine []delivered) (primary, artifact string) {
	for _, d := range mine {
		switch short(d.typ) {
		case "deployed", "upgraded", "rolledback":
			primary, artifact = d.revision, d.artifact
		case "removed":
			primary, artifact = "", ""
		}
	}
	return primary, artifact
}

// judgeEnd compares that with the final state of the Service.
func (w *world) judgeEnd(s *service, mine []delivered, v *verdict) {
	if s.deleted || s.restored > 0 || len(s.splits) == 0 {
		return
	}
	believed, artifact := replay(mine)
	if believed == "" {
		return // it existed before the controller, and its primary has not changed since
	}
	// The primary is the last Revision with all traffic; at first, the one with most of it.
	last := s.splits[0]
	for _, c := range s.splits[1:] {
		if len(c.split) == 1 {
			last = c
		}
	}
	if !w.counts(s, last, w.before(s)) {
		return // no process had to see it
	}
	primary := last.split[0].Revision
	if believed != primary {
		w.fail("%s: by its events Revision %s has the traffic, and it is %s", s.uid, believed, primary)
		return
	}
	v.replayed++
	if want := digest(s.templates[slices.Index(s.revisions, primary)]); !strings.Contains(artifact, strings.Replace(want, ":", "%3A", 1)) {
		w.fail("%s: by its events %s is deployed, and it is %s", s.uid, artifact, want)
	}
}
