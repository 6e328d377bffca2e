// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"knative.dev/pkg/apis"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
)

// outage writes a Service whose Route is not ready, or is.
func (c *cluster) outage(s *service, is bool) {
	o := s.object()
	if is {
		o.Status.Conditions = append(ready(false), apis.Condition{Type: servingv1.ServiceConditionRoutesReady, Status: corev1.ConditionFalse, Reason: "Uninitialized"})
	}
	c.put(s, logServices, partService, o)
}

func (w *world) passes(d time.Duration, p *process) {
	for until := w.cluster.now.Add(d); w.cluster.now.Before(until); w.cluster.now = w.cluster.now.Add(time.Second) {
		for log := range logs {
			for p.next(log) {
			}
		}
		p.queue[w.cluster.of("cart").key] = true // its timer
		p.reconcile()
		for p.deliver() {
			p.flush()
		}
	}
}

// A process is paused, or its watch lags, while an outage begins or ends. An incident is announced only of outages that
// lasted for the limit while it looked.
func TestPausedLeaderAnnouncesNoShortOutage(t *testing.T) {
	for seed := range uint64(300) {
		w, leads, standsBy := pair(t)
		w.kill(standsBy)
		c := w.cluster
		c.create("cart")
		c.to("cart", 100, 1)
		w.rest(leads)
		rng, want := rand.New(rand.NewPCG(seed, 9)), 0
		for range 4 {
			c.outage(c.of("cart"), true)
			switch long := rng.IntN(3) == 0; {
			case long:
				w.passes(70*time.Second, leads)
				want++
				c.outage(c.of("cart"), false)
			default:
				w.passes(time.Duration(1+rng.IntN(5))*time.Second, leads)
				if rng.IntN(2) == 0 {
					c.outage(c.of("cart"), false)
					c.now = c.now.Add(75 * time.Second) // paused, or the watch lags
				} else {
					c.now = c.now.Add(time.Duration(rng.IntN(50)) * time.Second)
					c.outage(c.of("cart"), false)
				}
				for range rng.IntN(4) { // its timer fires before its watch delivers
					leads.queue[c.of("cart").key] = true
					leads.reconcile()
					leads.deliver()
				}
			}
			w.passes(5*time.Second, leads)
		}
		got := len(slices.DeleteFunc(w.told(), func(typ string) bool { return typ != "detected" }))
		if got != want {
			t.Fatalf("seed %d: %d incidents, want %d: %q", seed, got, want, w.told())
		}
		report(t, w, "after the pauses")
		w.end()
	}
}

// A replica is suspended after it has seen a new Service. Another one announces all of its life, which the ledger
// forgets. If its machine is suspended, too, its clock stands still.
func TestSuspendedReplicaDoesNotRepeatALife(t *testing.T) {
	for name, stands := range map[string]bool{"the replica": false, "its machine": true} {
		w, leads, standsBy := pair(t)
		c := w.cluster
		c.create("cart")
		c.to("cart", 100, 1)
		for log := range logs {
			for leads.next(log) {
			}
		}
		standsBy.lead() // and the first one is suspended
		w.rest(standsBy)
		c.remove(c.of("cart"))
		w.rest(standsBy)
		for range 4 {
			c.now = c.now.Add(11 * time.Minute)
			if stands {
				leads.skew -= 11 * time.Minute
			}
			if err := standsBy.ledger.Collect(standsBy.ctx, c.now, 10*time.Minute); err != nil {
				t.Fatal(err)
			}
			w.rest(standsBy)
		}
		told := w.told()
		for range 20 {
			leads.reconcile()
			leads.deliver()
		}
		w.rest(leads)
		if got := w.told(); !slices.Equal(got, told) {
			t.Errorf("%s: announced %q, and then %q", name, told, got[len(told):])
		}
	}
}
