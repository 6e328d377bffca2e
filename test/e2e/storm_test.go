// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/oracle"
)

// storm is a scene in which the traffic of several Services is moved continuously while the controller, the sink or the
// cluster is disturbed. An oracle determines which events must arrive.
type storm struct {
	*scene
	names   []string
	history *oracle.History
	watch   *leaseWatch
	// shares of a Service's first Revision, in order. All are different, so that each reported split matches one of the
	// requested ones.
	shares map[string][]int
	// asked is the split that was requested last.
	asked map[string]oracle.Split
	moved int
	// absences that the leases do not show.
	absences []oracle.Absence
	// meter counts what the controller writes.
	meter *meter
	// replicas is set if the test must know what standby replicas saw.
	replicas *replicas
}

// newStorm starts to watch. The source and its sink exist before the first Service.
func newStorm(t *testing.T) *storm {
	t.Helper()
	s := &storm{scene: newScene(t), shares: map[string][]int{}, asked: map[string]oracle.Split{}}
	s.meter = s.newMeter()
	s.source("source", service("sink"))
	var err error
	s.history, err = oracle.Watch(t.Context(), suite.Serving, s.ns)
	s.must(err)
	s.watch = watchLeases(t)
	return s
}

// deployAll creates Services with two Revisions. The first one has all traffic.
func (s *storm) deployAll(names ...string) {
	s.Helper()
	s.deployEach(3, func(name string) *servingv1.Service { return kit.App(s.ns, name, suite.app, "one") }, names...)
}

// deployEach does so with any application, some at once.
func (s *storm) deployEach(atOnce int, app func(name string) *servingv1.Service, names ...string) {
	s.Helper()
	var all errgroup.Group
	all.SetLimit(atOnce)
	for _, name := range names {
		all.Go(func() error {
			ctx := s.Context()
			if err := suite.Services.Create(ctx, app(name)); err != nil {
				return err
			}
			first, second := kit.RevisionName(name, 1), kit.RevisionName(name, 2)
			if _, err := suite.Services.Wait(ctx, s.ns, name, first); err != nil {
				return err
			}
			err := suite.Services.Update(ctx, s.ns, name, func(svc *servingv1.Service) {
				kit.SetVersion(svc, "two")
				kit.SetTraffic(svc, kit.Share{Revision: first, Percent: 100})
			})
			if err != nil {
				return err
			}
			_, err = suite.Services.Wait(ctx, s.ns, name, second)
			return err
		})
	}
	s.must(all.Wait())
	for _, name := range names {
		s.names = append(s.names, name)
		s.shares[name] = rand.Perm(100)
		s.asked[name] = ""
	}
}

// remove deletes a Service once its traffic is no longer moved.
func (s *storm) remove(name string) {
	s.Helper()
	s.names = slices.DeleteFunc(s.names, func(n string) bool { return n == name })
	s.must(suite.Services.Delete(s.Context(), s.ns, name))
}

// move gives a Service a split that it never had.
func (s *storm) move(ctx context.Context, name string) (oracle.Split, error) {
	err := s.next(name)(ctx)
	return s.asked[name], err
}

// moveAll does so for all Services at the same time, and waits until the splits are in effect.
func (s *storm) moveAll() {
	s.Helper()
	var all errgroup.Group
	for _, name := range s.names {
		request := s.next(name)
		all.Go(func() error { return request(s.Context()) })
	}
	s.must(all.Wait())
	for _, name := range s.names {
		s.must(s.inForce(s.Context(), name))
	}
}

// next chooses a split that a Service never had, and returns its request. That retries, because the API server may be
// down for a while.
func (s *storm) next(name string) (request func(context.Context) error) {
	share := int64(s.shares[name][0])
	s.shares[name] = s.shares[name][1:]
	first, second := kit.RevisionName(name, 1), kit.RevisionName(name, 2)
	s.moved++
	s.asked[name] = oracle.NewSplit(map[string]int64{first: share, second: 100 - share})
	return func(ctx context.Context) error {
		return kit.Wait(ctx, time.Minute, "moving traffic of "+name, func(ctx context.Context) error {
			err := suite.Services.Update(ctx, s.ns, name, func(svc *servingv1.Service) {
				kit.SetTraffic(svc, kit.Share{Revision: first, Percent: share}, kit.Share{Revision: second, Percent: 100 - share})
			})
			if err != nil {
				return kit.NotYet("%v", err)
			}
			return nil
		})
	}
}

// recovers is how long Serving may take until it acts again after the API server was away. Its controllers may lose
// their leases and start anew.
const recovers = 3 * time.Minute

// inForce waits until a Service has the split that was requested last, because Serving needs time to recover too.
func (s *storm) inForce(ctx context.Context, name string) error {
	return kit.Wait(ctx, recovers, "the traffic of "+name, func(context.Context) error {
		if now := s.history.Now(types.NamespacedName{Namespace: s.ns, Name: name}); s.asked[name] != "" && now != s.asked[name] {
			return kit.NotYet("the split is %s, want %s", now, s.asked[name])
		}
		return nil
	})
}

// blow moves the traffic of the Services in turn, count times at that interval. A split is in effect before the next
// one is requested.
func (s *storm) blow(count int, every time.Duration) (wait func()) {
	ctx := s.Context()
	var all errgroup.Group
	all.Go(func() error {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for i := range count {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
			name := s.names[i%len(s.names)]
			if err := s.inForce(ctx, name); err != nil {
				return err
			}
			if _, err := s.move(ctx, name); err != nil {
				return err
			}
		}
		return nil
	})
	return func() { s.Helper(); s.must(all.Wait()) }
}

// alone adds a time without a leader for any Service.
func (s *storm) alone(from time.Time) {
	s.absences = append(s.absences, oracle.Absence{From: from, To: time.Now()})
}

// judge waits until a sink has received everything that it must, and then for what should not come.
func (s *storm) judge(k *sink, patience time.Duration) oracle.Verdict {
	s.Helper()
	verdict := func(ctx context.Context) (oracle.Verdict, error) {
		events, err := k.events(ctx)
		if err != nil {
			return oracle.Verdict{}, err
		}
		got := make([]oracle.Event, len(events))
		for i, e := range events {
			got[i] = received(e)
		}
		watching, err := s.replicas.watchings(ctx)
		if err != nil {
			return oracle.Verdict{}, err
		}
		return oracle.JudgeSeen(s.history.Lives(), got, watching, slices.Concat(s.absences, s.watch.absences())...), nil
	}
	err := kit.Wait(s.Context(), patience, "all expected events", func(ctx context.Context) error {
		v, err := verdict(ctx)
		if err == nil && len(v.Lost) > 0 {
			return kit.NotYet("%d events are missing, the first is %s", len(v.Lost), v.Lost[0])
		}
		return err
	})
	if err != nil {
		s.Error(err)
	}
	time.Sleep(still)
	v, err := verdict(s.Context())
	s.must(err)
	if err := v.Err(); err != nil {
		s.Error(err)
	}
	say("%s: %d moves requested, %d leaders lost; %s", s.Name(), s.moved, s.watch.losses(), v)
	for _, missed := range v.Missed {
		s.Logf("appeared and ended without a leader: %s", missed)
	}
	return v
}

// account reports what the controller wrote in the storm, and returns the writes for each event until all of them were
// delivered.
func (s *storm) account(v oracle.Verdict) float64 {
	s.Helper()
	return s.meter.read(fmt.Sprintf("%d changes of traffic", v.Changes))
}

// received converts an event for the oracle.
func received(e event) oracle.Event {
	out := oracle.Event{
		Number: e.Number, Accepted: e.Status >= http.StatusOK && e.Status < http.StatusMultipleChoices, ID: e.cd.Context.ID,
		UID: types.UID(e.cd.CustomData.Knative.UID), What: e.cd.Context.Type,
	}
	if parts := strings.Split(e.cd.Context.Type, "."); len(parts) > 3 {
		out.What = parts[3]
	}
	if r := e.cd.CustomData.Knative.Revision; r != nil {
		out.Revision = r.Name
	}
	percent := map[string]int64{}
	for _, share := range e.cd.CustomData.Knative.Traffic {
		percent[share.Revision] = share.Percent
	}
	out.Split = oracle.NewSplit(percent)
	var b strings.Builder
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range e.Header {
			if (strings.HasPrefix(name, "Ce-") || name == "Content-Type") && !yield(name) {
				return
			}
		}
	}) {
		fmt.Fprintf(&b, "%s: %s\n", name, e.Header.Get(name))
	}
	b.Write(e.Body)
	out.Bytes = b.String()
	return out
}
