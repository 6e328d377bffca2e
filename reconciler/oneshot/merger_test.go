// SPDX-License-Identifier: Apache-2.0

package oneshot

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// What comes during a look is answered by the next one, together.
func TestCallsDuringALookShareTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m merger
		var looks, busy atomic.Int32
		look := func() (Outcome, error) { //nolint:unparam // as the merger calls it
			if busy.Add(1) > 1 {
				t.Error("two looks at once")
			}
			time.Sleep(time.Second)
			busy.Add(-1)
			return Outcome{Wake: time.Unix(int64(looks.Add(1)), 0)}, nil
		}
		cart, shop := types.NamespacedName{Name: "cart"}, types.NamespacedName{Name: "shop"}
		var all sync.WaitGroup
		call := func(key types.NamespacedName, after time.Duration, want int64) {
			all.Go(func() {
				time.Sleep(after)
				if out, err := m.do(key, look); err != nil || out.Wake.Unix() != want {
					t.Errorf("called after %s: answered by look %d, %v, want %d", after, out.Wake.Unix(), err, want)
				}
			})
		}
		call(cart, 0, 1)
		for i := range 5 {
			call(cart, time.Duration(100+i)*time.Millisecond, 2)
		}
		call(cart, 1500*time.Millisecond, 3) // during the second one
		call(cart, 5*time.Second, 4)
		all.Wait()
		if len(m.running) > 0 {
			t.Error("something is kept")
		}
		// Another Service does not wait.
		start := time.Now()
		all.Go(func() { _, _ = m.do(shop, func() (Outcome, error) { time.Sleep(time.Second); return Outcome{}, nil }) })
		all.Go(func() { _, _ = m.do(cart, func() (Outcome, error) { time.Sleep(time.Second); return Outcome{}, nil }) })
		all.Wait()
		if took := time.Since(start); took != time.Second {
			t.Errorf("two Services took %s", took)
		}
	})
}

// A look that panics answers those who wait.
func TestLookThatPanicsAnswers(t *testing.T) {
	var m merger
	began, done := make(chan struct{}), make(chan error)
	go func() {
		defer func() { _ = recover() }()
		_, _ = m.do(types.NamespacedName{}, func() (Outcome, error) {
			close(began)
			time.Sleep(10 * time.Millisecond)
			panic("a bug")
		})
	}()
	<-began
	go func() {
		_, err := m.do(types.NamespacedName{}, func() (Outcome, error) { return Outcome{}, nil })
		done <- err
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
