// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
	"github.com/knative-cdevents/knative-cdevents/test/stage"
)

func (th *theatre) gate(name string, watch bool) {
	th.t.Helper()
	few, span := int64(100), func(d time.Duration) *v1alpha1.Duration { return &v1alpha1.Duration{Duration: d} }
	_, err := th.gates.Create(th.t.Context(), &v1alpha1.CanaryGate{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.CanaryGateSpec{
		Service: name, Watch: watch, GatePolicy: v1alpha1.GatePolicy{
			Minimum:  &v1alpha1.GateMinimum{CanaryRequests: &few, BaselineRequests: &few},
			Schedule: &v1alpha1.GateSchedule{Warmup: span(0), Interval: span(5 * time.Second), MinDuration: span(time.Second)},
		},
	}}, metav1.CreateOptions{})
	must(th.t, err)
}

func (th *theatre) stands(name string, is func(*v1alpha1.CanaryGate) bool) *v1alpha1.CanaryGate {
	th.t.Helper()
	var g *v1alpha1.CanaryGate
	for range 400 {
		var err error
		g, err = th.gates.Get(th.t.Context(), name, metav1.GetOptions{})
		must(th.t, err)
		if is(g) {
			return g
		}
		time.Sleep(25 * time.Millisecond)
	}
	th.t.Fatalf("%s stays %+v, run %+v", name, g.Status.Conditions, g.Status.Run)
	return nil
}

func running(g *v1alpha1.CanaryGate) bool {
	return g.Status.Run != nil && g.Status.Run.Verdict == "Running" && strings.Contains(g.Status.Run.Message, "Judging")
}

func reached(of verdict.Verdict) func(*v1alpha1.CanaryGate) bool {
	return func(g *v1alpha1.CanaryGate) bool {
		return g.Status.Run != nil && g.Status.Run.Verdict == of
	}
}

// ended reports whether the gate has noticed that the split of its run has ended.
func ended(g *v1alpha1.CanaryGate) bool {
	return g.Status.Run != nil && g.Status.Run.SplitEndTime != nil
}

func condition(t apis.ConditionType, status corev1.ConditionStatus, reason string) func(*v1alpha1.CanaryGate) bool {
	return func(g *v1alpha1.CanaryGate) bool {
		c := g.Status.GetCondition(t)
		return c != nil && c.Status == status && c.Reason == reason
	}
}

// change changes the spec of a gate, and waits until the controller has seen that.
func (th *theatre) change(name, spec string) {
	th.t.Helper()
	_, err := th.gates.Patch(th.t.Context(), name, types.MergePatchType, []byte(`{"spec":`+spec+`}`), metav1.PatchOptions{})
	must(th.t, err)
	th.stands(name, func(g *v1alpha1.CanaryGate) bool { return g.Status.ObservedGeneration == g.Generation })
}

func (th *theatre) heard(id string) string {
	th.mu.Lock()
	defer th.mu.Unlock()
	return th.told[id]
}

// passes returns a new Service, and the run with which the gate of its name has passed it.
func (th *theatre) passes(name string) (*stage.Stage, *v1alpha1.GateRun) {
	s := th.service(name)
	s.Serve(stage.Canary, 1, 0)
	th.gate(name, true)
	th.stands(name, running)
	s.Serve(stage.Canary, 200, 0)
	s.Serve(stage.Baseline, 200, 0)
	return s, th.stands(name, reached("Pass")).Status.Run
}

// TestGatesThatWatch is a sequence of scenes without Tekton.
func TestGatesThatWatch(t *testing.T) {
	th := open(t, controlplane.Start(t))
	stop := th.process()
	t.Cleanup(func() { stop() })

	th.act("from split to split", func(t *testing.T) {
		s := th.service("cart")
		s.Serve(stage.Canary, 1, 0)
		s.Split(0)
		th.gate("cart", true)
		g := th.stands("cart", condition(v1alpha1.GateServiceFound, yes, gaterun.NoSplit))
		if g.Status.Run != nil {
			t.Errorf("a run without a split: %+v", g.Status.Run)
		}
		s.Split(10)
		g = th.stands("cart", running)
		if g.Status.ObservedGeneration != g.Generation || !g.Status.GetCondition(apis.ConditionReady).IsTrue() {
			t.Errorf("%+v", g.Status)
		}
		s.Serve(stage.Canary, 40, 0)
		th.stands("cart", func(g *v1alpha1.CanaryGate) bool {
			return strings.Contains(g.Status.Run.Message, "60 requests of the canary")
		})
		stop()
		s.Serve(stage.Canary, 30, 0)
		s.Process()
		stop = th.process()
		th.stands("cart", func(g *v1alpha1.CanaryGate) bool {
			return strings.Contains(g.Status.Run.Message, "30 requests of the canary")
		})

		// Nothing happens, so nothing is written.
		quiet, err := th.gates.Get(t.Context(), "cart", metav1.GetOptions{})
		must(t, err)
		time.Sleep(time.Second)
		if is, err := th.gates.Get(t.Context(), "cart", metav1.GetOptions{}); err != nil || is.ResourceVersion != quiet.ResourceVersion {
			t.Errorf("an unnecessary write, %v: %+v", err, is.Status)
		}
		s.Serve(stage.Canary, 30, 0)
		s.Serve(stage.Baseline, 100, 0)
		first := th.stands("cart", reached("Pass")).Status.Run
		s.Split(50)
		second := th.stands("cart", running).Status.Run
		if second.ID == first.ID || gaterun.SplitOf(second).Percent("cart-00002") != 50 || th.heard(first.ID) != "cart uid-of-cart Pass" {
			t.Errorf("%+v, reported %q", second, th.heard(first.ID))
		}
		// The split changes during the run.
		s.Split(60)
		third := th.stands("cart", func(g *v1alpha1.CanaryGate) bool {
			return running(g) && gaterun.SplitOf(g.Status.Run).Percent("cart-00002") == 60
		}).Status.Run
		if th.heard(second.ID) != "cart uid-of-cart Superseded" {
			t.Errorf("reported %q", th.heard(second.ID))
		}
		s.Serve(stage.Canary, 0, 50)
		th.stands("cart", reached("Fail"))
		s.Split(0)
		g = th.stands("cart", condition(v1alpha1.GateServiceFound, yes, gaterun.NoSplit))
		if g.Status.Run == nil || g.Status.Run.ID != third.ID {
			t.Errorf("the last run disappeared: %+v", g.Status.Run)
		}
		s.Split(60)
		th.stands("cart", func(g *v1alpha1.CanaryGate) bool { return running(g) && g.Status.Run.ID != third.ID })
	})
	th.act("an unreported verdict", func(t *testing.T) {
		s := th.service("untold")
		s.Serve(stage.Canary, 1, 0)
		th.gate("untold", true)
		th.stands("untold", running)
		s.Serve(stage.Canary, 0, 50)
		first := th.stands("untold", reached("Fail")).Status.Run
		stop()
		// As if the process had died between the write and the report, and the split had changed
		// before the next process synced.
		th.mu.Lock()
		delete(th.told, first.ID)
		th.mu.Unlock()
		s.Split(20)
		stop = th.process()
		th.stands("untold", running)
		if heard := th.heard(first.ID); heard != "untold uid-of-untold Fail" {
			t.Errorf("reported %q", heard)
		}
	})
	th.act("a split that goes and comes within an interval", func(t *testing.T) {
		s, first := th.passes("patient")
		th.change("patient", `{"schedule":{"interval":"1h","timeout":"5h"}}`)
		s.Split(0)
		g := th.stands("patient", ended)
		if c := g.Status.GetCondition(v1alpha1.GateServiceFound); g.Status.Run.ID != first.ID || c.Reason != gaterun.NoSplit {
			t.Errorf("%+v, run %+v", c, g.Status.Run)
		}
		s.Split(10)
		th.stands("patient", func(g *v1alpha1.CanaryGate) bool { return g.Status.Run.ID != first.ID && !ended(g) })
	})
	th.act("a split that goes and comes while no run may begin", func(t *testing.T) {
		for name, c := range map[string][2]string{
			"suspended": {`{"suspend":true}`, `{"suspend":false}`}, "untemplated": {`{"templateRef":{"name":"none"}}`, `{"templateRef":null}`},
			"unwatched": {`{"watch":false}`, `{"watch":true}`},
		} {
			s, first := th.passes(name)
			th.change(name, c[0])
			s.Split(0)
			th.stands(name, ended)
			s.Split(10)
			time.Sleep(time.Second) // some intervals
			if g := th.stands(name, ended); g.Status.Run.ID != first.ID {
				t.Errorf("%s: a run began: %+v", name, g.Status.Run)
			}
			th.change(name, c[1])
			th.stands(name, func(g *v1alpha1.CanaryGate) bool { return running(g) && g.Status.Run.ID != first.ID && !ended(g) })
		}
	})
	th.act("a superseded split comes back", func(*testing.T) {
		s := th.service("returned")
		s.Serve(stage.Canary, 1, 0)
		th.gate("returned", true)
		first := th.stands("returned", running).Status.Run
		th.change("returned", `{"suspend":true}`)
		s.Split(20)
		th.stands("returned", reached(verdict.Superseded))
		s.Split(10)
		th.change("returned", `{"suspend":false}`)
		th.stands("returned", func(g *v1alpha1.CanaryGate) bool { return running(g) && g.Status.Run.ID != first.ID })
	})
	th.act("another canary is named", func(*testing.T) {
		th.passes("named")
		th.change("named", `{"canary":"named-00001"}`)
		th.stands("named", func(g *v1alpha1.CanaryGate) bool { return running(g) && g.Status.Run.Canary.Name == "named-00001" })
	})
	th.act("a Route that is being changed", func(t *testing.T) {
		s, first := th.passes("moving")
		for _, effective := range []bool{false, true} {
			s.Change(func(s *gaterun.Service) { s.Effective = effective })
			g := th.stands("moving", func(g *v1alpha1.CanaryGate) bool {
				return g.Status.GetCondition(v1alpha1.GateServiceFound).IsTrue() == effective
			})
			if g.Status.Run.ID != first.ID || ended(g) {
				t.Errorf("effective: %v, and %+v", effective, g.Status.Run)
			}
		}
		time.Sleep(time.Second) // some intervals
		if g := th.stands("moving", reached(verdict.Pass)); g.Status.Run.ID != first.ID || ended(g) {
			t.Errorf("the split was judged again: %+v", g.Status.Run)
		}
	})
	th.act("a start that takes long to read the Services", func(t *testing.T) {
		_, first := th.passes("large")
		stop()
		th.know(false)
		stop = th.process()
		time.Sleep(2 * time.Second) // some intervals
		th.know(true)
		time.Sleep(2 * time.Second)
		is, err := th.gates.Get(t.Context(), "large", metav1.GetOptions{})
		must(t, err)
		if is.Status.Run.ID != first.ID {
			t.Errorf("the split was judged again: %+v", is.Status.Run)
		}
	})
	th.act("what is wrong is said", func(*testing.T) {
		th.gate("missing", true)
		th.stands("missing", condition(v1alpha1.GateServiceFound, no, gaterun.ServiceNotFound))
		th.stands("missing", condition(v1alpha1.GateMeasured, corev1.ConditionUnknown, "NotRead"))
		s := th.service("silent")
		s.Silence()
		th.gate("silent", true)
		th.stands("silent", condition(v1alpha1.GateMeasured, no, "NothingCounted"))
		th.stands("silent", condition(apis.ConditionReady, no, "NothingCounted"))
	})
	th.act("without watch", func(t *testing.T) {
		th.service("still").Serve(stage.Baseline, 1, 0)
		th.gate("still", false)
		if g := th.stands("still", condition(apis.ConditionReady, yes, "")); g.Status.Run != nil {
			t.Errorf("a run: %+v", g.Status.Run)
		}
	})
}
