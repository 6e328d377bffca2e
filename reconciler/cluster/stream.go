// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// Limits of an event stream.
const (
	maxLine = 64 << 10
	// silence is how long a stream may stay silent. Nodes send a keep-alive every 10 s.
	silence = 45 * time.Second
)

// Events follows /cluster/domain-events of a node and calls changed with the name of each
// event, for example "MemberUp". It ignores the content, because the next poll reads the
// state. It returns when the stream ends; a node ends it when the reader is too slow.
func (m *Management) Events(ctx context.Context, at netip.AddrPort, changed func(event string)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(silence, func() { cancel(fmt.Errorf("%s has sent nothing for %s", at, silence)) })
	defer quiet.Stop()
	resp, err := m.do(ctx, at, "/cluster/domain-events", "text/event-stream")
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // a read error is already returned
	if kind := resp.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		return fmt.Errorf("the event stream of %s has the content type %q; it must be text/event-stream", at, kind)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 0, 4<<10), maxLine)
	for lines.Scan() {
		quiet.Reset(silence)
		if name, ok := strings.CutPrefix(lines.Text(), "event:"); ok {
			changed(strings.TrimSpace(name))
		}
	}
	if err := lines.Err(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("reading the event stream of %s: %w", at, err)
	}
	return nil
}
