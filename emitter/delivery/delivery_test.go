// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"fmt"
	"strings"
	"testing"
	"time"

	eventingduckv1 "knative.dev/eventing/pkg/apis/duck/v1"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

func TestEventsOfOneObjectKeepTheirOrder(t *testing.T) {
	s := newStage(t, sourceTo("all", "sink"))
	n := 0
	s.answer("sink", func() transport.Outcome { // every second attempt fails
		if n++; n%2 == 1 {
			return refuse(503, transport.Retry)()
		}
		return accepted
	})
	policy := &eventingduckv1.DeliverySpec{BackoffDelay: ptr("PT0.1S")}
	src := sourceTo("all", "sink")
	src.Spec.Delivery = policy
	s.UpdateSource(src)
	s.happens(t, "cart", lifecycle.Created, lifecycle.Deployed, lifecycle.Upgraded, lifecycle.RolledBack, lifecycle.Removed)
	s.eventually(t, "all events are delivered", func() bool { return s.pending("uid-all") == 0 })
	want := []string{"created", "deployed", "upgraded", "rolledback", "removed"}
	got := s.received()
	for i, w := range want {
		if i >= len(got) || !strings.HasSuffix(got[i], " "+w) {
			t.Fatalf("got %q", got)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %q", got)
	}
}

func TestHangingSinkDelaysNoOther(t *testing.T) {
	s := newStage(t, sourceTo("dead", "dead"), sourceTo("healthy", "healthy"))
	release := make(chan struct{})
	s.answer("dead", func() transport.Outcome { <-release; return refuse(504, transport.Retry)() })
	defer close(release)
	for i := range 40 {
		s.happens(t, fmt.Sprintf("cart-%d", i), lifecycle.Created)
	}
	s.eventually(t, "the healthy sink receives 40 events", func() bool { return s.pending("uid-healthy") == 0 })
	if s.pending("uid-dead") != 40 {
		t.Errorf("%d pending for the sink that hangs, want 40", s.pending("uid-dead"))
	}
}

func TestSinkThatResolvesLaterReceivesEverything(t *testing.T) {
	without := sourceTo("all", "")
	without.Status.SinkURI = nil
	s := newStage(t, without)
	s.happens(t, "cart", lifecycle.Created, lifecycle.Deployed)
	s.eventually(t, "the problem is reported", func() bool {
		_, _, _, problem := s.SourceStatus("uid-all")
		return strings.Contains(problem, "no address")
	})
	s.UpdateSource(sourceTo("all", "sink"))
	s.eventually(t, "both events are delivered", func() bool { return s.pending("uid-all") == 0 })
	if _, _, last, problem := s.SourceStatus("uid-all"); last.IsZero() || problem != "" {
		t.Errorf("last delivery %v, problem %q", last, problem)
	}
}

func TestOnlyTheLeaderSends(t *testing.T) {
	s := newStage(t, sourceTo("all", "sink"))
	s.leads = false
	s.happens(t, "cart", lifecycle.Created)
	time.Sleep(30 * time.Millisecond)
	if got := s.received(); len(got) > 0 {
		t.Fatalf("got %q", got)
	}
	s.mu.Lock()
	s.leads = true
	s.mu.Unlock()
	s.Resume()
	s.eventually(t, "the event is delivered", func() bool { return s.pending("uid-all") == 0 })
}

func TestProblemEndsWithTheLead(t *testing.T) {
	s := newStage(t, sourceTo("all", "sink"))
	sending, proceed := make(chan struct{}), make(chan struct{})
	s.answer("sink", refuse(503, transport.Retry))
	s.happens(t, "cart", lifecycle.Created)
	problem := func() string { _, _, _, problem := s.SourceStatus("uid-all"); return problem }
	s.eventually(t, "a problem is reported", func() bool { return problem() != "" })

	s.answer("sink", func() transport.Outcome { sending <- struct{}{}; <-proceed; return refuse(503, transport.Retry)() })
	s.happens(t, "shop", lifecycle.Created)
	<-sending
	s.mu.Lock()
	s.leads = false
	s.mu.Unlock()
	s.Demoted(reconciler.UniversalBucket())
	close(proceed) // the attempt fails after the lead is lost
	time.Sleep(30 * time.Millisecond)
	if got := problem(); got != "" {
		t.Errorf("the problem is still reported: %q", got)
	}
	if n := s.pending("uid-all"); n != 2 {
		t.Errorf("%d pending, want 2", n)
	}
}

func TestDeletedSourceHasNoPendingEvents(t *testing.T) {
	s := newStage(t, sourceTo("all", "sink"))
	s.answer("sink", refuse(503, transport.Retry))
	s.happens(t, "cart", lifecycle.Created)
	s.DeleteSource("uid-all")
	s.eventually(t, "the journal is empty", func() bool { return len(s.store.All()[0].Status.Journal) == 0 })
	if s.dropped[ledger.DroppedSourceRemoved] != 1 {
		t.Errorf("dropped %v", s.dropped)
	}
}

func TestShutdownDuringAnOutageIsQuick(t *testing.T) {
	s := newStage(t, sourceTo("all", "sink"))
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	s.answer("sink", func() transport.Outcome {
		select {
		case <-hang:
		case <-time.After(grace + time.Second):
		}
		return refuse(504, transport.Retry)()
	})
	for i := range 500 {
		s.happens(t, fmt.Sprintf("cart-%d", i), lifecycle.Created)
	}
	start := time.Now()
	s.cancel()
	s.Wait()
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
	if s.pending("uid-all") != 500 {
		t.Errorf("%d pending, want 500", s.pending("uid-all"))
	}
}

func TestEventWaitsForAValidFilter(t *testing.T) {
	src := sourceTo("all", "sink")
	src.Spec.Filters = []v1alpha1.Filter{{CESQL: "this is not CESQL ("}}
	s := newStage(t, src)
	s.happens(t, "cart", lifecycle.Created, lifecycle.Deployed)
	s.eventually(t, "the problem is reported", func() bool {
		_, _, _, problem := s.SourceStatus("uid-all")
		return strings.Contains(problem, "filters[0]")
	})
	s.delivered("uid-all") // another event
	if _, _, _, problem := s.SourceStatus("uid-all"); !strings.Contains(problem, "filters[0]") {
		t.Errorf("the problem is no longer reported, although events wait: %q", problem)
	}
	if got := s.received(); len(got) > 0 || s.pending("uid-all") != 2 {
		t.Fatalf("got %q, %d pending", got, s.pending("uid-all"))
	}
	corrected := sourceTo("all", "sink")
	corrected.Generation, corrected.Status.ObservedGeneration = 2, 2
	corrected.Spec.Filters = []v1alpha1.Filter{{Prefix: map[string]string{"type": "dev.cdevents.service"}}}
	s.UpdateSource(corrected)
	s.eventually(t, "the events are delivered after the correction", func() bool { return s.pending("uid-all") == 0 })
	if got := s.received(); len(got) != 1 || !strings.HasSuffix(got[0], "deployed") || len(s.dropped) > 0 {
		t.Errorf("got %q, dropped %v", got, s.dropped)
	}
}
