// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/reconciler/cluster"
	"github.com/knative-cdevents/knative-cdevents/reconciler/pods"
)

// countedLiving knows the pods that live now, and counts how often it was asked for others.
type countedLiving struct {
	known
	asked atomic.Int64
}

func (c *countedLiving) Live(context.Context, types.NamespacedName, types.UID) (bool, error) {
	c.asked.Add(1)
	time.Sleep(5 * time.Millisecond)
	return false, nil
}

// All pods of a Service that scales from or to zero register or leave at the same moment, by one compare-and-swap of one
// object. None of them is sent away, and what became of the pods before is asked for once.
func TestManyMembersAtOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	const many = 60
	generation := func(name string) (all known) {
		for i := range many {
			all = append(all, &pods.Pod{
				Namespace: namespace, Name: fmt.Sprint(name, i), UID: types.UID(fmt.Sprint(name, i)), IP: fmt.Sprintf("10.0.1.%d", i),
				Service: "cart", ServiceUID: "uid-cart", Revision: "cart-00001", Annotations: s.pods[0].Annotations,
			})
		}
		return all
	}
	living := &countedLiving{}
	registrar := &cluster.Registrar{Client: s.ours.ShardPlacements(namespace), Living: living, Now: time.Now}
	for round, name := range []string{"first", "second"} {
		of := generation(name)
		living.known = of
		for _, leave := range []bool{false, true} {
			var all sync.WaitGroup
			var failed atomic.Int64
			for i, pod := range of {
				all.Go(func() {
					ctx := t.Context()
					pin := fmt.Sprintf("%064x", round*many+i)
					var err error
					if leave {
						_, err = registrar.Leave(ctx, cart, pod, pin)
					} else {
						_, err = registrar.Register(ctx, cart, pod, pod.IP+":8482", pin)
					}
					if err != nil {
						failed.Add(1)
					}
				})
			}
			all.Wait()
			if failed.Load() > 0 {
				t.Errorf("%s, leaving: %v: %d of %d failed", name, leave, failed.Load(), many)
			}
		}
	}
	if n := living.asked.Load(); n > many {
		t.Errorf("%d pods that are gone were asked for %d times", many, n)
	}
	stored, err := s.ours.ShardPlacements(namespace).Get(t.Context(), "service-uid-cart", metav1.GetOptions{})
	must(t, err)
	left := 0
	for _, p := range stored.Status.Peers {
		if p.Left {
			left++
		}
	}
	if left != 2*many {
		t.Errorf("%d members have left, of %d", left, len(stored.Status.Peers))
	}
}
