// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

func key(i int) ledger.Key {
	return ledger.Key{Kind: "Service", Namespace: "shop", Name: fmt.Sprintf("cart-%d", i)}
}

// work is what workers do with a key.
type work func(ledger.Key) time.Duration

func (work) NotYet(ledger.Key) time.Duration        { return 0 }
func (w work) Deliver(key ledger.Key) time.Duration { return w(key) }
func (work) Rest()                                  {}

func TestOneWorkerPerKey(t *testing.T) {
	var mu sync.Mutex
	at, most, total := map[ledger.Key]int{}, 0, 0
	w := &workers{most: 4}
	w.work = work(func(k ledger.Key) time.Duration {
		mu.Lock()
		at[k]++
		total++
		if at[k] > 1 {
			t.Errorf("two workers process %s", k)
		}
		most = max(most, len(at))
		mu.Unlock()
		time.Sleep(time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		if at[k]--; at[k] == 0 {
			delete(at, k)
		}
		return 0
	})
	var adding sync.WaitGroup
	for range 4 {
		adding.Go(func() {
			for i := range 200 {
				w.Add(key(i % 10))
				w.addAfter(key(i%10), time.Duration(i%3)*time.Millisecond)
			}
		})
	}
	adding.Wait()
	for range 1000 {
		if w.Idle() {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	mu.Lock()
	defer mu.Unlock()
	if !w.Idle() || most > 4 || total < 10 {
		t.Errorf("idle: %v, %d keys at once, %d calls in total", w.Idle(), most, total)
	}
	if w.Close(); w.taken != nil {
		t.Errorf("an idle queue keeps %d keys", len(w.taken))
	}
	w.Wait()
}

func TestKeyAddedDuringWorkIsProcessedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		times := 0
		w := &workers{most: 4}
		w.work = work(func(ledger.Key) time.Duration { times++; time.Sleep(time.Second); return 0 })
		w.Add(key(1))
		time.Sleep(500 * time.Millisecond)
		w.Add(key(1))
		w.Add(key(1))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if times != 2 {
			t.Errorf("processed %d times, want twice", times)
		}
		w.Close()
		w.Wait()
	})
}

func TestEarliestTimeCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var at []time.Duration
		w := &workers{most: 1, work: work(func(ledger.Key) time.Duration { at = append(at, time.Since(start)); return 0 })}
		w.addAfter(key(1), time.Hour)
		w.addAfter(key(1), time.Minute)
		w.addAfter(key(1), 2*time.Hour)
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if len(at) != 1 || at[0] != time.Minute {
			t.Errorf("processed at %v", at)
		}
		w.addAfter(key(2), time.Minute)
		w.Close()
		w.Add(key(3))
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(at) != 1 {
			t.Errorf("processed at %v after Close", at)
		}
		w.Wait()
	})
}
