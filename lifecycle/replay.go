// SPDX-License-Identifier: Apache-2.0

package lifecycle

import "time"

// Replay announces the current state again, for new sources: that the Service is deployed, and its
// published URLs. Later transitions do not link to these.
func Replay(m Memory, at time.Time) Result {
	b := builder{m: m.clone(), at: m.journalTime(at)}
	b.waits = &b.m.Waits
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
