// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestRampStartsWithOneEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 4
		r := newRamp(most)
		enter := func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return r.enter(ctx)
		}
		slots := func() (n int) {
			for enter() {
				n++
			}
			return n
		}
		if n := slots(); n != most {
			t.Errorf("%d events at once to a healthy sink, want %d", n, most)
		}
		for range most {
			r.leave(false)
		}
		r.restart()
		for _, want := range []int{1, 2, 3, most, most} {
			n := slots()
			if n != want {
				t.Errorf("%d events at once, want %d", n, want)
			}
			r.leave(true)
			for range n - 1 {
				r.leave(false)
			}
		}
	})
}

func TestRampAdmitsWaiters(t *testing.T) {
	r := newRamp(1)
	if !r.enter(t.Context()) {
		t.Fatal("the first event must not wait")
	}
	entered := make(chan bool)
	go func() { entered <- r.enter(context.Background()) }()
	r.leave(true)
	if !<-entered {
		t.Error("the waiting event was not admitted")
	}
}
