package sim

import (
	"slices"
	"strings"
)

// replay is what a receiver believes that keeps book of a Service by its events
// alone: which Revision is the primary, and which artifact it runs.
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

// judgeEnd compares that with the Service as it is in the end.
func (w *world) judgeEnd(s *service, mine []delivered, v *verdict) {
	if s.deleted || s.restored > 0 || len(s.splits) == 0 {
		return
	}
	believed, artifact := replay(mine)
	if believed == "" {
		return // it was there before us, and nothing has happened to its primary since
	}
	// The primary is what had all traffic last; at first, what had most of it.
	last := s.splits[0]
	for _, c := range s.splits[1:] {
		if len(c.split) == 1 {
			last = c
		}
	}
	if !w.counts(last, w.before(s)) {
		return // nobody need have seen it
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
