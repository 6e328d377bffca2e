// SPDX-License-Identifier: Apache-2.0

package scrape

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Whatever happens, each Service that is led has begun once more than it has ended, is read if it has pods, and is
// not if it has none.
func TestRandomChanges(t *testing.T) {
	t.Parallel()
	for seed := range int64(40) {
		watched(t, func(s *watchedStage, r *Runner) {
			rnd := rand.New(rand.NewSource(seed))
			var keys []types.NamespacedName
			for i := range 6 {
				keys = append(keys, name(fmt.Sprint("service-", i)))
			}
			for range 300 {
				key := keys[rnd.Intn(len(keys))]
				switch rnd.Intn(6) {
				case 0:
					s.set(func() { s.leads[key] = !s.leads[key] })
					r.AllChanged()
				case 1:
					s.set(func() { delete(s.services, key) })
					r.Changed(key)
					if rnd.Intn(2) == 0 {
						s.set(func() { s.services[key] = nil })
						r.Changed(key)
					}
				case 2:
					s.set(func() { s.services[key] = nil })
					r.Changed(key)
				case 3, 4:
					s.set(func() { s.services[key] = []Target{{Pod: "p1", Path: "/metrics", Dying: rnd.Intn(2) == 0}} })
					r.Changed(key)
				case 5:
					time.Sleep(time.Duration(rnd.Intn(20000)) * time.Millisecond)
				}
			}
			time.Sleep(3 * interval)
			s.set(func() { s.readings = map[types.NamespacedName][][]Reading{} })
			time.Sleep(10 * interval)
			s.set(func() {
				for _, key := range keys {
					targets, exists := s.services[key]
					running := strings.Count(s.began[key], " ") - s.ended[key]
					want := 0
					if exists && s.leads[key] {
						want = 1
					}
					n := len(s.readings[key])
					if running != want || n > 0 != (want == 1 && len(targets) > 0) || n > 0 && n < 10 {
						t.Errorf("seed %d: %s runs %d times, want %d; with %d pods, it was read %d times", seed, key, running, want,
							len(targets), n)
					}
				}
			})
			synctest.Wait()
			s.set(func() {
				for i, e := range r.agenda {
					if e.place != i || i > 0 && e.at().Before(r.agenda[(i-1)/2].at()) {
						t.Errorf("seed %d: the heap is broken at %d", seed, i)
					}
				}
				if len(r.agenda) > len(keys) || len(r.ending) > len(keys) {
					t.Errorf("seed %d: %d in the agenda, %d ending", seed, len(r.agenda), len(r.ending))
				}
			})
		})
	}
}
