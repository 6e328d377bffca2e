package lifecycle

import "time"

// Replay tells of the present state once more, for those who were not there: that
// the Service is deployed, and under which URLs it is published. Nothing of it is
// news, so that later transitions do not point to it.
func Replay(m Memory, at time.Time) Result {
	b := builder{m: m.clone(), at: m.after(at)}
	if !m.Deployed || m.Removed || m.Primary == "" || m.Pending != nil {
		return b.result()
	}
	t := Transition{Reason: ReasonReplay, Revision: b.m.revision(b.m.Primary), Links: b.m.Last.link(LinkPath)}
	t.Type = Deployed
	b.emit(t)
	if len(m.URLs) > 0 {
		t.Type = Published
		b.emit(t)
	}
	return b.result()
}
