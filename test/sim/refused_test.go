// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// A quota or a policy refuses the writes of the ledger while a Service comes and goes. What is older than five minutes
// when they are accepted again could be forgotten, and nothing of it is announced: a limit that README.md states. The
// log says so.
func TestServiceThatComesAndGoesWhileWritesAreRefused(t *testing.T) {
	life := []string{"created", "ready", "deployed", "published", "removed"}
	for minutes, want := range map[int][]string{4: life, 15: nil} {
		w, leads, standsBy := pair(t)
		w.kill(standsBy)
		core, logged := observer.New(zap.WarnLevel)
		leads.ctx = logging.WithLogger(leads.ctx, zap.New(core).Sugar())
		c := w.cluster
		before := w.store.Before
		w.store.Before = func(verb, name string) error {
			if verb != "get" {
				return apierrors.NewForbidden(v1alpha1.SubjectResource.GroupResource(), name, errors.New("exceeded quota"))
			}
			return before(verb, name)
		}
		c.create("cart")
		c.to("cart", 100, 1)
		for minute := range minutes {
			if minute == 2 {
				c.remove(c.of("cart"))
			}
			for log := range logs {
				for leads.next(log) {
				}
			}
			leads.queue[types.NamespacedName{Namespace: "ns", Name: "cart"}] = true
			leads.reconcile()
			c.now = c.now.Add(time.Minute)
		}
		w.store.Before = before
		w.settle()
		if got := w.told(); !slices.Equal(got, want) {
			t.Errorf("after %d minutes: announced %q, want %q", minutes, got, want)
		}
		if n := logged.FilterMessageSnippet("may have forgotten it").Len(); (n > 0) != (want == nil) {
			t.Errorf("after %d minutes: logged %d times", minutes, n)
		}
	}
}
