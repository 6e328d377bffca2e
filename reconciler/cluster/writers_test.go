// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/cluster"
)

// behind is a cache that does not hear of changes.
type behind struct {
	cluster.Plans
	last *v1alpha1.ShardPlacement
}

func (b behind) Get(types.UID) *v1alpha1.ShardPlacement { return b.last }

// A process that leads again has to compare with what its predecessor wrote, and not with its own last plan.
func TestALeaderThatReturnsReadsThePlan(t *testing.T) {
	s := newScene(t)
	s.place(20)
	first := s.cached(20)
	second := cluster.NewPlacer(s.placer.PlacerOptions)
	s.shares = []lifecycle.Share{{Revision: "cart-00001", Percent: 50}, {Revision: "cart-00002", Percent: 50}}
	s.plan(second)
	s.cached(50)
	s.place(20)
	if back := s.cached(20); back.Status.Version <= first.Status.Version {
		t.Errorf("version %d after %d", back.Status.Version, first.Status.Version)
	}
	// A plan that somebody deletes comes back.
	must(t, s.ours.ShardPlacements(namespace).Delete(t.Context(), first.Name, metav1.DeleteOptions{}))
	for s.placer.Plans.Get("uid-cart") != nil {
		time.Sleep(10 * time.Millisecond)
	}
	s.place(20)
	s.cached(20)
}

// Clients ignore a plan with a lower version, so what a restored backup brings back must be issued anew.
func TestAPlanFromABackupIsIssuedAnew(t *testing.T) {
	s := newScene(t)
	s.place(20)
	first := s.cached(20)
	s.place(20)
	if again := s.cached(20); again.Status.Version != first.Status.Version {
		t.Fatalf("version %d after %d, and nothing changed", again.Status.Version, first.Status.Version)
	}
	restore := func() {
		old := first.DeepCopy()
		old.ResourceVersion = s.placer.Plans.Get("uid-cart").ResourceVersion
		old.Status.Version -= 1000
		_, err := s.ours.ShardPlacements(namespace).Update(t.Context(), old, metav1.UpdateOptions{})
		must(t, err)
		for s.placer.Plans.Get("uid-cart").Status.Version != old.Status.Version {
			time.Sleep(10 * time.Millisecond)
		}
	}
	issued := func(p *cluster.Placer) {
		t.Helper()
		s.now = s.now.Add(time.Second)
		s.plan(p)
		for range 100 {
			if s.placer.Plans.Get("uid-cart").Status.Version >= s.now.UnixMilli() {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Error("the plan has an old version")
	}
	restore()
	issued(s.placer)
	restore()
	issued(cluster.NewPlacer(s.placer.PlacerOptions)) // a process that has just started
}

// The restored plan is noticed by a conflict, before the cache shows it.
func TestAConflictWithABackupIsIssuedAnew(t *testing.T) {
	s := newScene(t)
	s.place(20)
	first, plans := s.cached(20), s.placer.Plans
	old := first.DeepCopy()
	old.Status.Version -= 1000
	_, err := s.ours.ShardPlacements(namespace).Update(t.Context(), old, metav1.UpdateOptions{})
	must(t, err)
	s.placer.Plans = behind{plans, first}
	s.shares = []lifecycle.Share{{Revision: "cart-00001", Percent: 60}, {Revision: "cart-00002", Percent: 40}}
	if _, err := s.placer.Place(t.Context(), cart, s.layout); err == nil {
		t.Fatal("a plan of another writer was replaced")
	}
	s.placer.Plans = plans
	s.shares[0].Percent, s.shares[1].Percent = 80, 20
	s.plan(s.placer)
	stored, err := s.ours.ShardPlacements(namespace).Get(t.Context(), first.Name, metav1.GetOptions{})
	must(t, err)
	if stored.Status.Version < first.Status.Version {
		t.Errorf("version %d after %d: clients ignore it", stored.Status.Version, first.Status.Version)
	}
}

// Clients ignore lower versions, so a leader whose clock was set back still issues a higher one after the plan was
// deleted.
func TestADeletedPlanComesBackWithAHigherVersion(t *testing.T) {
	s := newScene(t)
	s.place(20)
	first := s.cached(20)
	must(t, s.ours.ShardPlacements(namespace).Delete(t.Context(), first.Name, metav1.DeleteOptions{}))
	for s.placer.Plans.Get("uid-cart") != nil {
		time.Sleep(10 * time.Millisecond)
	}
	s.now = s.now.Add(-time.Hour)
	s.plan(s.placer)
	stored, err := s.ours.ShardPlacements(namespace).Get(t.Context(), first.Name, metav1.GetOptions{})
	must(t, err)
	if stored.Status.Version <= first.Status.Version {
		t.Errorf("version %d after %d: clients ignore it", stored.Status.Version, first.Status.Version)
	}
}

// A process that leads no more, and does not know yet, must not replace the plan of its successor.
func TestASecondWriterIsRefused(t *testing.T) {
	s := newScene(t)
	s.place(20)
	plans, second := s.placer.Plans, cluster.NewPlacer(s.placer.PlacerOptions)
	s.placer.Plans = behind{plans, s.cached(20)}
	s.now = s.now.Add(time.Second)
	s.shares = []lifecycle.Share{{Revision: "cart-00001", Percent: 90}, {Revision: "cart-00002", Percent: 10}}
	s.plan(second)
	s.shares[0].Percent, s.shares[1].Percent = 60, 40
	if _, err := s.placer.Place(t.Context(), cart, s.layout); err == nil || !strings.Contains(err.Error(), "modified") {
		t.Errorf("the former leader's write: %v, want a conflict", err)
	}
	// It reads the plan again, and continues from that.
	s.plan(s.placer)
	s.placer.Plans = plans
	s.cached(40)

	// A template that asks for no plan any more ends it.
	s.layout.Declared.Placement = ""
	for range 100 {
		s.plan(s.placer)
		if plans.Get("uid-cart") == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Error("the plan is still there")
}
