// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/oracle"
)

// Limits that follow from config-leader-election: until the next delivery after the leader is stopped, until the next
// delivery after it dies, and until a leader that is stopped while its sink hangs has ended.
const (
	handoverWithin = 5 * time.Second
	failoverWithin = 25 * time.Second // lease-duration and two attempts of another replica, 4.4 s at most each, and the way
	endWithin      = 5 * time.Second
)

// TestChangeOfLeader stops leaders, one of them while it waits for a hanging sink, and kills one.
func TestChangeOfLeader(t *testing.T) {
	s := newStorm(t)
	s.deployAll("shop")
	rounds := 2
	if suite.full {
		rounds = 6
	}
	for range rounds {
		if took := s.stopLeader(); took > handoverWithin {
			t.Errorf("the leader was stopped, and the next event was delivered after %s, want %s at most", took, handoverWithin)
		}
	}
	if took := s.stopLeaderWhileTheSinkHangs(); took > endWithin {
		t.Errorf("the leader was stopped while its sink hung, and ended after %s, want %s at most", took, endWithin)
	}
	if !suite.Own() {
		rounds = 1 // pods can be killed only on the cluster made by test/cluster
	}
	for range rounds - 1 {
		if took := s.killLeader(); took > failoverWithin {
			t.Errorf("the leader was killed, and the next event was delivered after %s, want %s at most", took, failoverWithin)
		}
	}
	s.account(s.judge(s.sink, time.Minute))
}

// settled is how long a pod must have run before it is deleted: earlier, the kubelet may take two seconds to signal
// it.
const settled = 10 * time.Second

// settledLeader returns the leader once all replicas are running and it has led for a while.
func (s *storm) settledLeader() (lease, pod string) {
	s.Helper()
	s.must(suite.Controller.WaitAvailable(s.Context()))
	time.Sleep(settled)
	return leader(s.T, s.ns, "shop")
}

// stopLeader returns the time until the next leader's first delivery.
func (s *storm) stopLeader() time.Duration {
	s.Helper()
	lease, pod := s.settledLeader()
	began := time.Now()
	s.must(suite.Controller.Delete(s.Context(), pod, nil))
	released := s.waitLease(lease, func(holder string) bool { return holder != pod })
	// From now on only the next leader can report changes.
	split, err := s.move(s.Context(), "shop")
	s.must(err)
	deliveredAt := s.delivered(split)
	say("stopped the leader: it released its lease after %s, the next event arrived after %s",
		released.Sub(began).Round(10*time.Millisecond), deliveredAt.Sub(began).Round(10*time.Millisecond))
	return deliveredAt.Sub(began)
}

// killLeader does the same for a leader that dies.
func (s *storm) killLeader() time.Duration {
	s.Helper()
	lease, pod := s.settledLeader()
	began := time.Now()
	s.watch.kill(pod)
	s.must(suite.Controller.Crash(s.Context(), pod))
	split, err := s.move(s.Context(), "shop")
	s.must(err)
	taken := s.waitLease(lease, func(holder string) bool { return holder != pod && holder != "" })
	deliveredAt := s.delivered(split)
	say("killed the leader: another one had its lease after %s, the next event arrived after %s",
		taken.Sub(began).Round(10*time.Millisecond), deliveredAt.Sub(began).Round(10*time.Millisecond))
	return deliveredAt.Sub(began)
}

// stopLeaderWhileTheSinkHangs returns the time until the leader has ended.
func (s *storm) stopLeaderWhileTheSinkHangs() time.Duration {
	s.Helper()
	ctx := s.Context()
	lease, pod := s.settledLeader()
	s.must(s.sink.fault(ctx, `{"hang":true}`))
	split, err := s.move(ctx, "shop")
	s.must(err)
	s.waitRequest(split, func(e event) bool { return e.Status == 0 })
	began := time.Now()
	s.must(suite.Controller.Delete(ctx, pod, nil))
	taken := s.waitLease(lease, func(holder string) bool { return holder != pod && holder != "" })
	s.must(kit.Wait(ctx, time.Minute, "the end of pod "+pod, func(ctx context.Context) error {
		_, err := suite.Kube.CoreV1().Pods(kit.Namespace).Get(ctx, pod, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return kit.NotYet("it still exists")
	}))
	ended := time.Now()
	say("stopped the leader while the sink hung: another one had its lease after %s, and it was gone after %s",
		taken.Sub(began).Round(10*time.Millisecond), ended.Sub(began).Round(10*time.Millisecond))
	s.must(s.sink.fault(ctx, `{}`))
	return ended.Sub(began)
}

// waitLease returns when a lease first has a matching holder.
func (s *storm) waitLease(lease string, is func(holder string) bool) time.Time {
	s.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		leaders, err := suite.Controller.Leaders(s.Context())
		s.must(err)
		if is(leaders[lease]) {
			return time.Now()
		}
	}
	s.Fatalf("lease %s still has the same holder", lease)
	return time.Time{}
}

// delivered returns when the sink accepted the event of a split.
func (s *storm) delivered(split oracle.Split) time.Time {
	s.Helper()
	return s.waitRequest(split, accepted).Time
}

// waitRequest returns the first matching request for a split.
func (s *storm) waitRequest(split oracle.Split, is func(event) bool) event {
	s.Helper()
	var found event
	s.must(kit.Wait(s.Context(), time.Minute, "an event of the split "+string(split), func(ctx context.Context) error {
		events, err := s.sink.events(ctx)
		if err != nil {
			return err
		}
		for _, e := range events {
			if received(e).Split == split && is(e) {
				found = e
				return nil
			}
		}
		return kit.NotYet("%d requests, none for that split", len(events))
	}))
	return found
}
