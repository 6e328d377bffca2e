// SPDX-License-Identifier: Apache-2.0

package scrape

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape/limits"
)

// watchedStage is a stage that reports its changes, and counts what it is asked.
type watchedStage struct {
	*stage
	listed, asked int
}

func (s *watchedStage) Services() []types.NamespacedName {
	s.set(func() { s.listed++ })
	return s.stage.Services()
}

func (s *watchedStage) Dying(ctx context.Context, key types.NamespacedName) []Target {
	s.set(func() { s.asked++ })
	return s.stage.Dying(ctx, key)
}

func (s *watchedStage) Exists(key types.NamespacedName) (exists bool) {
	s.set(func() { _, exists = s.services[key] })
	return exists
}

func (s *watchedStage) HasPods(key types.NamespacedName) (has bool) {
	s.set(func() { has = len(s.services[key]) > 0 })
	return has
}

func (s *watchedStage) HasDying(key types.NamespacedName) (has bool) {
	s.set(func() { has = slices.ContainsFunc(s.services[key], func(t Target) bool { return t.Dying }) })
	return has
}

const interval = 15 * time.Second

// watched runs f with a Runner of a stage. Its targets have no address, so none is really read.
func watched(t *testing.T, f func(s *watchedStage, r *Runner)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, neutral := &watchedStage{stage: newStage()}, mapping.NewReader(mapping.Neutral())
		r := &Runner{
			Budget: NewBudget(), Client: NewClient(1), Discovery: s, Sink: s,
			Leader: s, Settings: settings{
				Interval: interval, Limits: limits.Default,
				Reader: func(string) *mapping.Reader { return neutral }, Entry: neutral,
			},
		}
		for i := range 100 {
			key := name(fmt.Sprint("service-", i))
			s.services[key], s.leads[key] = nil, true
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); r.Run(ctx) }()
		time.Sleep(interval)
		f(s, r)
		cancel()
		<-done
		s.set(func() {
			for key, began := range s.began {
				if 6*s.ended[key] < len(began) {
					t.Errorf("%s began %q and ended %d times", key, began, s.ended[key])
				}
			}
		})
	})
}

func TestNothingIsDoneForServicesWithoutPods(t *testing.T) {
	t.Parallel()
	watched(t, func(s *watchedStage, _ *Runner) {
		time.Sleep(time.Hour)
		s.set(func() {
			if len(s.began) != 100 || len(s.readings) > 0 || s.asked > 0 {
				t.Errorf("%d Services began, %d were read, and dying pods were asked for %d times", len(s.began), len(s.readings),
					s.asked)
			}
			if s.listed > 62 {
				t.Errorf("all Services were listed %d times in an hour", s.listed)
			}
		})
	})
}

func TestServiceIsReadFromItsFirstPodToItsLast(t *testing.T) {
	t.Parallel()
	pod := Target{Pod: "p1", Path: "/metrics"}
	dying := pod
	dying.Dying = true
	key := name("service-1")
	watched(t, func(s *watchedStage, r *Runner) {
		is := func(targets ...Target) {
			s.set(func() { s.services[key], s.readings, s.asked = targets, map[types.NamespacedName][][]Reading{}, 0 })
			r.Changed(key)
		}
		is(pod)
		time.Sleep(10 * interval)
		s.set(func() {
			if n := len(s.readings[key]); n != 10 || len(s.readings) != 1 || s.asked > 4 {
				t.Errorf("with a pod, it was read %d times in ten intervals, %d Services were read, and dying pods asked for %d times", n, len(s.readings), s.asked)
			}
		})
		is(dying)
		time.Sleep(10 * time.Second)
		s.set(func() {
			if n := len(s.readings[key]); n < 9 || n > 12 {
				t.Errorf("with a dying pod, it was read %d times in 10 s", n)
			}
		})
		is()
		time.Sleep(time.Hour)
		s.set(func() {
			if all := s.readings[key]; len(all) != 1 || len(all[0]) > 0 || s.asked > 2 {
				t.Errorf("after its last pod, it was read %d times, and dying pods were asked for %d times", len(all), s.asked)
			}
		})
		is(pod)
		time.Sleep(interval)
		s.set(func() {
			if len(s.readings[key]) == 0 {
				t.Error("it is not read when it has a pod again")
			}
		})
	})
}

func TestChangesAreFollowedAtOnce(t *testing.T) {
	t.Parallel()
	fresh, theirs := name("fresh"), name("theirs")
	watched(t, func(s *watchedStage, r *Runner) {
		s.set(func() { s.services[fresh], s.leads[fresh], s.services[theirs] = nil, true, nil })
		r.Changed(fresh)
		r.Changed(theirs)
		synctest.Wait()
		s.set(func() {
			if s.began[fresh] != "true " || s.began[theirs] != "" {
				t.Errorf("began: %q, and %q of another leader", s.began[fresh], s.began[theirs])
			}
			s.leads[fresh], s.leads[theirs] = false, true
		})
		r.AllChanged()
		synctest.Wait()
		s.set(func() {
			if s.ended[fresh] != 1 || s.began[theirs] != "false " {
				t.Errorf("after a change of leader, one ended %d times and the other began %q", s.ended[fresh], s.began[theirs])
			}
			delete(s.services, theirs)
		})
		r.Changed(theirs)
		synctest.Wait()
		s.set(func() {
			if s.ended[theirs] != 1 {
				t.Errorf("one that is gone ended %d times", s.ended[theirs])
			}
		})
	})
}

// One that is led again must not begin before its last reading has ended: the end would drop its counts.
func TestServiceBeginsAfterItHasEnded(t *testing.T) {
	t.Parallel()
	key := name("service-1")
	watched(t, func(s *watchedStage, r *Runner) {
		s.set(func() { s.services[key] = []Target{{Pod: "p1", Path: "/metrics"}} })
		r.Changed(key)
		time.Sleep(2 * interval)
		for _, leads := range []bool{false, true} {
			s.set(func() { s.leads[key] = leads })
			r.AllChanged()
			synctest.Wait()
		}
		s.set(func() {
			if s.began[key] != "false false " || s.ended[key] != 1 {
				t.Errorf("it began %q and ended %d times", s.began[key], s.ended[key])
			}
			s.readings = map[types.NamespacedName][][]Reading{}
		})
		time.Sleep(interval)
		s.set(func() {
			if len(s.readings[key]) != 1 {
				t.Errorf("it was read %d times in the interval after that", len(s.readings[key]))
			}
		})
	})
}
