// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestLeasesAreHeldUntilLastSends(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cause error
		noted time.Duration // after the signal
		want  time.Duration
	}{
		"nothing was being sent": {nil, 0, 0},
		"the sink answered":      {nil, 100 * time.Millisecond, 100 * time.Millisecond},
		"the sink hangs":         {nil, 2 * time.Second, lastSends},
		"a backup was restored":  {errReverted, 2 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				stopping, stop := context.WithCancelCause(t.Context())
				p := newProcess(stopping, stop, nil)
				ctx := p.handover()
				time.AfterFunc(time.Minute+c.noted, func() { close(p.acknowledged) })
				time.Sleep(time.Minute)
				synctest.Wait()
				if ctx.Err() != nil {
					t.Fatal("the leases were released before the signal")
				}
				began := time.Now()
				stop(c.cause)
				<-ctx.Done()
				if took := time.Since(began); took != c.want {
					t.Errorf("the leases were held for %s, want %s", took, c.want)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}
