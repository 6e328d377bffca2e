// SPDX-License-Identifier: Apache-2.0

package receiver_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/system"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/reconciler/doorbell"
)

// entries returns the ledger by the names of Services.
func (w *world) entries(c *client.Clientset) map[string]v1alpha1.CDEventSubject {
	w.t.Helper()
	list, err := c.CDEventSubjects(ours).List(w.t.Context(), metav1.ListOptions{})
	must(w.t, err)
	out := map[string]v1alpha1.CDEventSubject{}
	for _, e := range list.Items {
		out[e.Spec.Name] = e
	}
	return out
}

// asResident makes the ledger one that a resident controller leaves: nothing says what is owed, because that was in its
// memory. The rest is the same, whoever writes it.
func (w *world) asResident(c *client.Clientset) {
	w.t.Helper()
	for _, e := range w.entries(c) {
		e.Status.Attempts, e.Status.Waits, e.Status.Due = nil, nil, nil
		delete(e.Annotations, v1alpha1.WakeAnnotation)
		_, err := c.CDEventSubjects(ours).Update(w.t.Context(), &e, metav1.UpdateOptions{})
		must(w.t, err)
	}
}

// takesAll waits for events about several Services, in any order.
func (w *world) takesAll(what string, want ...string) {
	w.t.Helper()
	for until := time.Now().Add(time.Minute); len(w.sink.Got()) < len(want) && time.Now().Before(until); {
		time.Sleep(20 * time.Millisecond)
	}
	time.Sleep(500 * time.Millisecond) // for others that must not come
	got := w.sink.Take()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		w.t.Fatalf("%s: received %q, want %q", what, got, want)
	}
}

// An installation is switched to the serverless mode twice, and ran with a controller in between. What was pending is
// sent at once, also about a Service that nothing happens to any more; what has happened while nothing ran is announced;
// and nothing comes twice. test/sim shows that the controller continues from what the cores leave, and that both may run
// at once.
func TestSwitch(t *testing.T) {
	t.Setenv(system.NamespaceEnvKey, ours)
	w, ctx := newWorld(t), t.Context()
	c := w.source()
	stopCore, stopBell := w.core(), w.doorbell()
	w.sourceReady(c)
	cart, till := w.create("cart"), w.create("till")
	for _, svc := range []*servingv1.Service{cart, till} {
		w.route(svc, map[string]int64{w.revision(svc, 1): 100})
	}
	w.takesAll("before", "created", "ready", "deployed", "published", "created", "ready", "deployed", "published")

	for round := 1; round <= 2; round++ {
		old := fmt.Sprintf("old-%d", round)
		svc := w.create(old)
		w.route(svc, map[string]int64{w.revision(svc, 1): 100})
		w.takesAll("another Service", "created", "ready", "deployed", "published")
		w.sink.SetDown(true)
		newest := w.revision(cart, round+1)
		w.revision(till, round+1)
		for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
			if e := w.entries(c); e["cart"].Status.Pending == 1 && e["till"].Status.Pending == 1 {
				break
			}
		}
		stopBell()
		stopCore()
		w.asResident(c)
		for _, name := range []string{"cart", "till"} {
			if e := w.entries(c)[name]; e.Status.Pending != 1 || e.Annotations[v1alpha1.WakeAnnotation] != "" {
				t.Fatalf("not what a controller leaves: %+v", e)
			}
		}
		w.sink.SetDown(false)
		w.route(cart, map[string]int64{newest: 100})
		w.remove(old)
		if round == 2 {
			// The Lease goes with the serverless mode. In the first round somebody has kept it: the doorbell then knows which
			// changes it has rung about, but not what the controller left.
			leases := w.kube.CoordinationV1().Leases(ours)
			must(t, leases.Delete(ctx, doorbell.Defaults.Lease, metav1.DeleteOptions{}))
			_, err := leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: doorbell.Defaults.Lease}}, metav1.CreateOptions{})
			must(t, err)
		}
		stopCore, stopBell = w.core(), w.doorbell()
		w.takesAll(fmt.Sprintf("switched, round %d", round), "ready", "ready", "upgraded", "removed")
	}
	for name, e := range w.entries(c) {
		if e.Status.Pending != 0 || len(e.Status.Attempts) > 0 || len(e.Status.Dropped) > 0 {
			t.Errorf("%s: %+v", name, e.Status)
		}
	}
}
