// SPDX-License-Identifier: Apache-2.0

package doorbell

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// alarm runs wakes in a bubble, and notes when which subject is rung.
type alarm struct {
	*wakes
	logged bytes.Buffer
	mu     sync.Mutex
	rung   map[string][]time.Duration
	began  time.Time
}

func withWakes(t *testing.T, test func(t *testing.T, a *alarm)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := &alarm{rung: map[string][]time.Duration{}, began: time.Now()}
		a.wakes = newWakes("ours", 10*time.Minute, slog.New(slog.NewTextHandler(&a.logged, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		ended.Go(func() {
			a.run(ctx, func(_ context.Context, key Key, _ Change) error {
				a.mu.Lock()
				defer a.mu.Unlock()
				if key.Kind != Subjects || key.Namespace != "ours" {
					t.Errorf("it rings %v", key)
				}
				a.rung[key.Name] = append(a.rung[key.Name], time.Since(a.began))
				return nil
			})
		})
		defer ended.Wait()
		defer cancel()
		test(t, a)
	})
}

// subject shows a subject whose annotation has this value.
func (a *alarm) subject(name, value string) {
	var o Object
	o.Metadata.Name = name
	if value != "" {
		o.Metadata.Annotations = map[string]string{wakeAnnotation: value}
	}
	a.see(Updated, &o)
}

func (a *alarm) times(name string) []time.Duration {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.rung[name]
}

func in(d time.Duration) string { return time.Now().Add(d).Format(time.RFC3339) }

func TestWakes(t *testing.T) {
	withWakes(t, func(t *testing.T, a *alarm) {
		a.subject("late", in(time.Hour))
		a.subject("soon", in(time.Minute))
		a.subject("moved", in(time.Minute))
		a.subject("moved", in(2*time.Hour))
		a.subject("none", in(time.Minute))
		a.subject("none", "")
		a.subject("gone", in(time.Minute))
		a.see(Deleted, func() *Object { o := &Object{}; o.Metadata.Name = "gone"; return o }())
		a.subject("past", in(-time.Hour))
		a.subject("far", "9999-12-31T23:59:59Z")
		a.subject("fraction", time.Now().Add(1500*time.Microsecond).Format(time.RFC3339Nano))

		time.Sleep(time.Second)
		if got := a.times("past"); len(got) != 1 || got[0] != 0 {
			t.Errorf("a time in the past was rung at %v, want at once", got)
		}
		if got := a.times("fraction"); len(got) != 1 || got[0] < 1500*time.Microsecond {
			t.Errorf("1.5 ms were rung at %v, want no earlier", got)
		}
		time.Sleep(time.Minute)
		if got := a.times("soon"); len(got) != 1 || got[0] != time.Minute {
			t.Errorf("it was rung at %v, want after a minute", got)
		}
		a.subject("soon", "") // the core has done what was due
		time.Sleep(3 * time.Hour)
		if got := a.times("late")[0]; got != time.Hour {
			t.Errorf("it was rung at %v, want after an hour", got)
		}
		if got := a.times("moved")[0]; got != 2*time.Hour {
			t.Errorf("it was rung at %v, want at the later time only", got)
		}
		for _, name := range []string{"none", "gone", "far"} {
			if got := a.times(name); got != nil {
				t.Errorf("%s was rung at %v", name, got)
			}
		}
		if got := a.times("soon"); len(got) != 1 {
			t.Errorf("it was rung at %v, although nothing was due any more", got)
		}
		a.clear()
		if a.len() != 0 {
			t.Errorf("%d are left", a.len())
		}
	})
}

// TestWakesAgain: the core's clock may be behind, and then it finds nothing due.
func TestWakesAgain(t *testing.T) {
	withWakes(t, func(t *testing.T, a *alarm) {
		at := in(time.Minute)
		a.subject("cart", at)
		for range 100 { // other writes do not bring it forward
			time.Sleep(time.Minute)
			a.subject("cart", at)
		}
		got := a.times("cart")
		want := []int{60, 65, 75, 95, 135, 215, 375, 695, 1295, 1895}
		for i, s := range want {
			if got[i] != time.Duration(s)*time.Second {
				t.Fatalf("rung at %v, want after %v s", got, want)
			}
		}
		if n := len(got); n > 20 {
			t.Errorf("%d rings in 100 minutes", n)
		}
	})
}

func TestInvalidWake(t *testing.T) {
	withWakes(t, func(t *testing.T, a *alarm) {
		a.subject("cart", "tomorrow")
		if got := a.times("cart"); len(got) != 1 || got[0] != 0 {
			t.Errorf("rung at %v, want at once", got)
		}
		if text := a.logged.String(); !strings.Contains(text, "RFC 3339") || !strings.Contains(text, "tomorrow") {
			t.Errorf("the log says %q", text)
		}
	})
}
