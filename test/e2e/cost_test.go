// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// spent is what the controller wrote to the API server in some time. Only requests that succeeded count.
type spent struct {
	// entries are writes of CDEventSubjects.
	entries int
	// sources are writes of the status of CDEventSources.
	sources int
	// others are all other writes, by resource.
	others map[string]int
	// leases are renewed whether there are events or not.
	leases int
	// conflicts are writes that the API server refused because of another write.
	conflicts int
}

// changing are the verbs of requests that change one object.
var changing = []string{"create", "update", "patch", "delete"}

// spentIn counts the writes among requests that were answered in a time.
func spentIn(requests []entry, from, to time.Time) spent {
	out := spent{others: map[string]int{}}
	for _, e := range requests {
		if e.changes() && !e.StageTimestamp.Before(from) && !e.StageTimestamp.After(to) {
			out.add(e)
		}
	}
	return out
}

// changes reports a request to store something, and that it was answered. The API server logs other stages of it too.
func (e entry) changes() bool {
	return e.Stage == "ResponseComplete" && e.ObjectRef != nil && slices.Contains(changing, e.Verb) && !e.isReview()
}

func (s *spent) add(e entry) {
	o := e.ObjectRef
	switch code := e.ResponseStatus.Code; {
	case code == http.StatusConflict:
		s.conflicts++
	case code < http.StatusOK || code >= http.StatusMultipleChoices:
	case o.Resource == "leases":
		s.leases++
	case o.Resource == v1alpha1.SourceResource.Resource && o.Subresource == "status":
		s.sources++
	case o.Resource != v1alpha1.SubjectResource.Resource:
		s.others[strings.TrimSuffix(o.Resource+"/"+o.Subresource, "/")]++
	default:
		s.entries++
	}
}

// writes is the number of writes for events.
func (s spent) writes() int {
	n := s.entries + s.sources
	for _, other := range s.others {
		n += other
	}
	return n
}

func (s spent) perEvent(events int) float64 { return float64(s.writes()) / float64(max(events, 1)) }

func (s spent) String() string {
	text := fmt.Sprintf("entries %d, sources %d", s.entries, s.sources)
	for _, resource := range slices.Sorted(maps.Keys(s.others)) {
		text += fmt.Sprintf(", %s %d", resource, s.others[resource])
	}
	return text
}

// meter compares what the controller writes with the events that the sinks of a scene accept, from some time on. It is
// nil if the audit log cannot be read.
type meter struct {
	s     *scene
	began time.Time
	log   *auditLog
	user  string
}

// newMeter counts from now on.
func (s *scene) newMeter() *meter {
	s.Helper()
	if suite.audit == nil {
		return nil
	}
	log, err := suite.audit.fromNow()
	s.must(err)
	user, err := suite.Controller.ServiceAccount(s.Context())
	s.must(err)
	return &meter{s: s, began: time.Now(), log: log, user: user}
}

// read waits until the controller is at rest, reports what was written, and returns the writes for each event until all
// of them were delivered. What happened names the cause of the events.
func (m *meter) read(happened string) float64 {
	if m == nil {
		return 0
	}
	m.s.Helper()
	rested := m.s.rest()
	events, delivered := m.delivered()
	requests, err := m.log.of(m.user)
	m.s.must(err)
	until, all := spentIn(requests, m.began, delivered), spentIn(requests, m.began, rested)
	say("%s: %s, %d events: %.2f writes per event until delivered (%s), %.2f until at rest %s later (%s); apart from them %d leases and %d conflicts",
		m.s.Name(), happened, events, until.perEvent(events), until,
		all.perEvent(events), rested.Sub(delivered).Round(time.Second), all, all.leases, all.conflicts)
	return until.perEvent(events)
}

// delivered counts the different events that each sink accepted, and returns when it accepted the last one for the
// first time.
func (m *meter) delivered() (events int, last time.Time) {
	m.s.Helper()
	for _, k := range m.s.sinks {
		all, err := k.events(m.s.Context())
		m.s.must(err)
		known := map[string]bool{}
		for _, e := range all {
			if !received(e).Accepted || known[e.cd.Context.ID] {
				continue
			}
			known[e.cd.Context.ID] = true
			if e.Time.Before(m.began) {
				continue
			}
			if events++; e.Time.After(last) {
				last = e.Time
			}
		}
	}
	return events, last
}

// restWithin is how long the controller may take to be at rest.
const restWithin = 2 * time.Minute

// rest waits until the controller is at rest for a while: all acknowledgements are written, and no event for
// this namespace is pending. It returns when the rest began.
func (s *scene) rest() time.Time {
	s.Helper()
	var began time.Time
	s.must(kit.Wait(s.Context(), restWithin, "the controller to be at rest", func(ctx context.Context) error {
		if err := s.resting(ctx); err != nil {
			began = time.Time{}
			return err
		}
		if began.IsZero() {
			began = time.Now()
		}
		if time.Since(began) < still {
			return kit.NotYet("it is since %s", took(began))
		}
		return nil
	}))
	return began
}

// resting returns an error if there is still something to do.
func (s *scene) resting(ctx context.Context) error {
	pods, err := suite.Controller.Pods(ctx)
	if err != nil {
		return err
	}
	held, err := suite.Controller.Exported(ctx, "cdevents_held_acknowledgements")
	if err != nil {
		return kit.NotYet("%v", err)
	}
	if len(held) != len(pods) {
		return kit.NotYet("%d of %d replicas tell how many acknowledgements they hold", len(held), len(pods))
	}
	for pod, n := range held {
		if n > 0 {
			return kit.NotYet("%s has acknowledgements of %.0f CDEventSubjects to write", pod, n)
		}
	}
	sources, err := suite.Ours.CDEventSources(s.ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range sources.Items {
		if n := sources.Items[i].Status.Pending; n > 0 {
			return kit.NotYet("source %s has %d pending events", sources.Items[i].Name, n)
		}
	}
	return nil
}

// maxWritesPerEvent is a bound for many changes at about the same time, also on a busy machine. If nothing shared a
// write, each event would need three: for its state, its acknowledgement and the checkpoint.
const maxWritesPerEvent = 3.0

// TestWritesPerEvent moves the traffic of many Services at the same time, again and again, and counts the controller's
// writes in the API server's audit log.
func TestWritesPerEvent(t *testing.T) {
	if !suite.full {
		t.Skip("it takes two minutes: make e2e-full")
	}
	if suite.audit == nil {
		t.Skip("the audit log can be read only on the cluster made by test/cluster: make e2e")
	}
	const services, rounds = 20, 5
	s := newStorm(t)
	names := make([]string, services)
	for i := range names {
		names[i] = fmt.Sprintf("s%d", i)
	}
	s.deployAll(names...)
	s.rest()
	s.meter = s.newMeter()
	for range rounds {
		s.moveAll()
	}
	v := s.judge(s.sink, time.Minute)
	if n := s.account(v); n > maxWritesPerEvent {
		t.Errorf("the controller wrote %.2f times for each event, want %.2f at most", n, maxWritesPerEvent)
	}
}
