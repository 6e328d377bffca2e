package delivery

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestASinkThatComesBackGetsOneAtFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 4
		r := newRamp(most)
		enter := func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return r.enter(ctx)
		}
		room := func() (n int) {
			for enter() {
				n++
			}
			return n
		}
		if n := room(); n != most {
			t.Errorf("%d at once to a sink that is well, want %d", n, most)
		}
		for range most {
			r.leave(false)
		}
		r.restart()
		for _, want := range []int{1, 2, 3, most, most} {
			n := room()
			if n != want {
				t.Errorf("%d at once, want %d", n, want)
			}
			r.leave(true)
			for range n - 1 {
				r.leave(false)
			}
		}
	})
}

func TestWhoWaitsForRoomGetsIt(t *testing.T) {
	r := newRamp(1)
	if !r.enter(t.Context()) {
		t.Fatal("no room")
	}
	entered := make(chan bool)
	go func() { entered <- r.enter(context.Background()) }()
	r.leave(true)
	if !<-entered {
		t.Error("did not enter")
	}
}
