// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/oracle"
)

// TestAPIServerRestarts restarts the API server, which ends every watch, while traffic is moved.
func TestAPIServerRestarts(t *testing.T) {
	if !suite.Own() {
		t.Skip("only the API server of the cluster made by test/cluster can be restarted: make e2e")
	}
	s := newStorm(t)
	s.deployAll("one", "two", "three")
	over := s.blow(24, 900*time.Millisecond)
	time.Sleep(6 * time.Second)
	began := time.Now()
	s.must(suite.RestartDaemon(t.Context(), "kube-apiserver"))
	say("the API server was down for %s at most", took(began))
	over()
	// A new API server cannot resume a watch: a change that is undone before the controller watches again
	// is never sent.
	again := s.watchedAgain(began)
	say("every replica watched again after %s", again.Sub(began).Round(100*time.Millisecond))
	s.absences = append(s.absences, oracle.Absence{From: began, To: again})
	s.account(s.judge(s.sink, time.Minute))
}

// watchedAgain returns when the last replica started to watch Routes for the first time since then.
func (s *storm) watchedAgain(since time.Time) time.Time {
	s.Helper()
	pods, err := suite.Controller.Pods(s.Context())
	s.must(err)
	user, err := suite.Controller.ServiceAccount(s.Context())
	s.must(err)
	var last time.Time
	s.must(kit.Wait(s.Context(), time.Minute, "every replica watching again", func(context.Context) error {
		entries, err := suite.audit.of(user)
		if err != nil {
			return err
		}
		first := map[string]time.Time{}
		for _, e := range entries {
			if e.ObjectRef == nil || e.ObjectRef.Resource != "routes" || e.Verb != "watch" || e.Stage != "ResponseStarted" || e.StageTimestamp.Before(since) {
				continue
			}
			from := strings.Join(e.SourceIPs, ",")
			if at, known := first[from]; !known || e.StageTimestamp.Before(at) {
				first[from] = e.StageTimestamp
			}
		}
		if len(first) < len(pods) {
			return kit.NotYet("%d of %d do", len(first), len(pods))
		}
		last = slices.MaxFunc(slices.Collect(maps.Values(first)), time.Time.Compare)
		return nil
	}))
	return last
}

// TestCompaction suspends the controller while traffic is moved and etcd is compacted, so that every watch must relist.
// The controller then sees only the latest state.
func TestCompaction(t *testing.T) {
	if !suite.full {
		t.Skip("it takes minutes: make e2e-full")
	}
	if suite.audit == nil {
		t.Skip("only the cluster made by test/cluster lets its etcd be compacted: make e2e-full")
	}
	s := newStorm(t)
	ctx := t.Context()
	s.deployAll("one", "two", "three")
	s.blow(6, 900*time.Millisecond)()
	pods, err := suite.Controller.Pods(ctx)
	s.must(err)
	signal := func(signal string) {
		t.Helper()
		for i := range pods {
			s.must(suite.Controller.Signal(ctx, signal, pods[i].Name))
		}
	}
	before := s.relists()
	suspended := time.Now()
	signal("STOP")
	s.blow(12, 900*time.Millisecond)()
	s.must(suite.Compact(ctx))
	s.must(suite.RestartDaemon(ctx, "kube-apiserver"))
	signal("CONT")
	s.must(suite.Controller.WaitLeader(ctx))
	// The caches are complete once a new change is reported.
	split, err := s.move(ctx, "one")
	s.must(err)
	s.must(s.inForce(ctx, "one"))
	s.delivered(split)
	s.alone(suspended)
	s.blow(6, 900*time.Millisecond)()
	v := s.judge(s.sink, time.Minute)

	if n := s.relists() - before; n < len(pods) {
		t.Errorf("only %d of %d replicas relisted all Routes, so this test shows little", n, len(pods))
	}
	s.must(kit.Wait(ctx, time.Minute, "a healthy controller", suite.Controller.WaitAvailable))
	s.account(v)
}

// relists counts the controller's lists of Routes, including watches that begin with a list.
func (s *storm) relists() int {
	s.Helper()
	user, err := suite.Controller.ServiceAccount(s.Context())
	s.must(err)
	entries, err := suite.audit.of(user)
	s.must(err)
	n := 0
	for _, e := range entries {
		if e.ObjectRef == nil || e.ObjectRef.Resource != "routes" || e.Stage != "ResponseStarted" && e.Verb == "watch" {
			continue
		}
		if e.Verb == "list" || strings.Contains(e.RequestURI, "sendInitialEvents=true") {
			n++
		}
	}
	return n
}
