// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
	"github.com/knative-cdevents/knative-cdevents/test/fleet"
)

// cluster is a real API server with Services as the controller describes them.
type cluster struct {
	*fleet.Fleet
	source types.UID
}

func ago(d time.Duration) time.Time { return time.Now().Add(-d) }

func start(t *testing.T) *cluster {
	t.Helper()
	return &cluster{Fleet: fleet.New(t, controlplane.Start(t))}
}

// fill adds a canary that a gate judges, other Services, sources and environments.
func (c *cluster) fill(t *testing.T) {
	t.Helper()
	c.source = c.AddSource(t, fleet.Shop, "releases", "event-display", v1alpha1.CDEventSourceStatus{LastDelivery: &metav1.MicroTime{Time: ago(40 * time.Second)}})
	c.AddSource(t, fleet.Shop, "staging", "missing", v1alpha1.CDEventSourceStatus{}, fleet.Missing("missing"))
	cart := c.AddService(t, "cart", "", 90, 10)
	books := c.AddService(t, "books", "", 0, 100)
	c.AddService(t, "hooks", "RevisionMissing")
	c.AddService(t, "search", "", 100)
	c.AddService(t, "payments", "", 50, 50)
	c.AddRevisions(t, "cart", 2)
	c.AddGate(t, "cart-gate", "cart", fleet.Run(time.Now(), 120, .36))
	c.ledger(t, cart, 3*time.Minute+10*time.Second, 10)
	c.ledger(t, books, 5*time.Hour, 100)
	environment := fleet.Entry(v1alpha1.CDEventSubjectSpec{Kind: "Cluster", Namespace: fleet.Clusters, Name: "prod", UID: "u-prod"}, nil, c.source)
	environment.Status.Sequence, environment.Status.LastEvent, environment.Status.LastEventTime = 2, string(lifecycle.EnvironmentModified), &metav1.MicroTime{Time: ago(11 * time.Minute)}
	c.AddEntry(t, environment)
}

// ledger adds an entry: deployed long ago, then a newer Revision, then a split that is not delivered yet.
func (c *cluster) ledger(t *testing.T, s *servingv1.Service, since time.Duration, percent int64) {
	t.Helper()
	first, second := &lifecycle.Revision{Name: s.Name + "-00001"}, &lifecycle.Revision{Name: s.Name + "-00002"}
	after := []lifecycle.Share{{Revision: first.Name, Percent: 100 - percent}, {Revision: second.Name, Percent: percent}}
	last := lifecycle.Transition{Sequence: 4, Time: ago(since), Type: lifecycle.TrafficShifted, Revision: second, Previous: first, Traffic: after}
	if percent == 100 {
		last.Type, last.Traffic = lifecycle.Upgraded, after[1:]
	}
	ready := lifecycle.Transition{Sequence: 3, Time: ago(since + 4*time.Minute), Type: lifecycle.RevisionReady, Revision: second}
	deployed := &lifecycle.TransitionRef{Sequence: 1, Time: ago(since + 23*time.Hour), Type: lifecycle.Deployed}
	memory := lifecycle.Memory{Sequence: 4, Primary: first.Name, Last: deployed, Traffic: last.Traffic, Revisions: map[string]lifecycle.KnownRevision{
		first.Name: {Revision: *first, Arrived: deployed}, second.Name: {Revision: *second, Arrived: &lifecycle.TransitionRef{Sequence: 4, Time: last.Time, Type: last.Type}},
	}}
	e := fleet.Entry(v1alpha1.CDEventSubjectSpec{Kind: "Service", Namespace: s.Namespace, Name: s.Name, UID: s.UID}, memory, c.source, ready, last)
	past := func(sequence int64, at time.Time, of lifecycle.Type, traffic ...v1alpha1.PastShare) {
		e.Status.History += fleet.History(v1alpha1.PastTransition{
			Sequence: sequence, Time: metav1.NewMicroTime(at),
			Type: string(of), Revision: first.Name, Traffic: traffic, Names: []string{"http://" + s.Name + ".shop.example.com"},
		})
	}
	if percent < 100 { // the other Service's entry is older than the history
		past(1, deployed.Time, lifecycle.Deployed, v1alpha1.PastShare{Revision: first.Name, Percent: 100})
		past(2, deployed.Time.Add(time.Second), lifecycle.Published)
	}
	e.Status.OldestPending, e.Status.Pending, e.Status.Acknowledged = &metav1.MicroTime{Time: last.Time}, 1, map[types.UID]int64{c.source: 3}
	if percent == 100 {
		e.Status.Acknowledged[c.source], e.Status.Pending = 4, 0
	}
	c.AddEntry(t, e)
}

// shift gives the canary of cart another share, and its gate other numbers.
func (c *cluster) shift(ctx context.Context, percent, requests int64, handled float64) error {
	s, err := c.Serving.ServingV1().Services(fleet.Shop).Get(ctx, "cart", metav1.GetOptions{})
	if err != nil {
		return err
	}
	fleet.Split(s, 100-percent, percent)
	if _, err := c.Serving.ServingV1().Services(fleet.Shop).UpdateStatus(ctx, s, metav1.UpdateOptions{}); err != nil {
		return err
	}
	g, err := c.Events.CanaryGates(fleet.Shop).Get(ctx, "cart-gate", metav1.GetOptions{})
	if err != nil {
		return err
	}
	g.Status.Run = fleet.Run(time.Now(), requests, handled)
	_, err = c.Events.CanaryGates(fleet.Shop).UpdateStatus(ctx, g, metav1.UpdateOptions{})
	return err
}
