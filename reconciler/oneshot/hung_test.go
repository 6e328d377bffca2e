// SPDX-License-Identifier: Apache-2.0

package oneshot_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	eventingduckv1 "knative.dev/eventing/pkg/apis/duck/v1"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/reconciler/oneshot"
)

// black is a sink that takes connections, and answers after a while, or never.
type black struct {
	mu    sync.Mutex
	after time.Duration
	// asked counts attempts, by URL.
	asked map[string]int
}

func (b *black) Send(ctx context.Context, to transport.Target, _ event.Event, with transport.Policy) transport.Outcome {
	b.mu.Lock()
	b.asked[to.URL]++
	after := b.after
	b.mu.Unlock()
	if to.URL != "http://hangs" {
		return transport.Outcome{Class: transport.Acknowledged, Status: 202}
	}
	ctx, cancel := context.WithTimeout(ctx, with.AttemptTimeout())
	defer cancel()
	select {
	case <-ctx.Done():
		return transport.Outcome{Class: transport.Retry, Err: ctx.Err()}
	case <-time.After(after):
		return transport.Outcome{Class: transport.Acknowledged, Status: 202}
	}
}

func (*black) Forget(types.UID) {}

func (b *black) take() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.asked
	b.asked = map[string]int{}
	return out
}

// hanging returns a core that has a second for a request, and a cart whose events go to a sink that hangs.
func hanging(t *testing.T, delivery *eventingduckv1.DeliverySpec) (*cluster, *black, *oneshot.Core) {
	t.Helper()
	s := sourceTo("hangs")
	s.Spec.Delivery = delivery
	if delivery.DeadLetterSink != nil {
		s.Status.DeadLetterSinkURI = delivery.DeadLetterSink.URI
	}
	c, to := newCluster(t, s), &black{asked: map[string]int{}, after: time.Hour}
	c.within = 500 * time.Millisecond
	c.deploy()
	core := c.core()
	core.Transport = to
	return c, to, core
}

// A sink may take longer than a look. Each attempt is made, counted and given up within it, whatever the source allows:
// otherwise no ring is answered, and no event ever becomes a dead letter.
func TestAttemptsEndWithinALook(t *testing.T) {
	t.Parallel()
	c, to, core := hanging(t, &eventingduckv1.DeliverySpec{
		Timeout: ptr.To("PT10M"), Retry: ptr.To(int32(1)), DeadLetterSink: &duckv1.Destination{URI: apis.HTTP("dead")},
	})
	for try := int64(1); try <= 2; try++ {
		if _, err := core.Process(t.Context(), cart); err != nil {
			t.Fatalf("attempt %d: %v", try, err)
		}
		if try == 1 {
			if a := c.entry().Status.Attempts; len(a) != 1 || a[0].Tries != try || a[0].Failures != try {
				t.Fatalf("after attempt %d, the ledger has %+v", try, a)
			}
		}
		c.later(10 * time.Minute)
	}
	if asked := to.take(); asked["http://hangs"] < 2 || asked["http://dead"] < 1 {
		t.Errorf("asked %v", asked)
	}
}

// A sink that hangs takes one look at a time, and not each look at a Service of which something is pending.
func TestHungSinkIsSpared(t *testing.T) {
	t.Parallel()
	c, to, core := hanging(t, &eventingduckv1.DeliverySpec{Timeout: ptr.To("PT30S")})
	asked := func(what string, want int) {
		t.Helper()
		_, err := core.Process(t.Context(), cart)
		must(t, err)
		if n := to.take()["http://hangs"]; n != want {
			t.Errorf("%s: asked %d times, want %d", what, n, want)
		}
	}
	asked("at first", 1)
	c.later(5 * time.Second) // the second attempt would be due
	asked("soon after", 0)
	a := c.entry().Status.Attempts
	if len(a) != 1 || a[0].Tries != 1 || a[0].NotBefore.Sub(c.now) < time.Second || a[0].NotBefore.Sub(c.now) > 10*time.Second {
		t.Fatalf("the ledger has %+v at %s", a, c.now)
	}
	if at := c.entry().Annotations[v1alpha1.WakeAnnotation]; at != a[0].NotBefore.UTC().Format(time.RFC3339) {
		t.Errorf("to be asked again at %s", at)
	}
	c.now = a[0].NotBefore.Time
	asked("when it is due", 1)
	c.later(11 * time.Second)
	asked("before the longer pause is over", 0)
	c.later(11 * time.Second)
	to.after = 0
	asked("when it answers", 4)
	if left := c.entry().Status.Journal; len(left) > 0 {
		t.Errorf("pending: %+v", left)
	}
	// Another address is not to blame.
	to.after = time.Hour
	c.trouble(true)
	asked("when trouble begins", 0)
	c.later(2 * time.Minute)
	asked("when it hangs again", 1)
	c.later(5 * time.Second)
	c.sources[0] = c.sources[0].DeepCopy()
	c.sources[0].Generation, c.sources[0].Status.ObservedGeneration = 2, 2
	c.sources[0].Status.SinkURI = apis.HTTP("elsewhere")
	_, err := core.Process(t.Context(), cart)
	must(t, err)
	if all := to.take(); all["http://elsewhere"] != 1 {
		t.Errorf("asked %v", all)
	}
}

// Several looks at once find a sink that hangs, and then one of them tries it.
func TestOneLookTriesAHungSink(t *testing.T) {
	t.Parallel()
	c, to, core := hanging(t, &eventingduckv1.DeliverySpec{})
	other := types.NamespacedName{Namespace: cart.Namespace, Name: "other"}
	_, err := core.Process(t.Context(), cart)
	must(t, err)
	// What is pending about another Service.
	e := c.entry().DeepCopy()
	e.Name, e.UID, e.ResourceVersion, e.Spec.Name, e.Spec.UID = "service-uid-other", "", "", other.Name, "uid-other"
	e.Status.Attempts = nil
	_, err = c.store.Create(t.Context(), e, metav1.CreateOptions{})
	must(t, err)
	to.take()
	c.later(time.Minute)
	var both sync.WaitGroup
	for _, key := range []types.NamespacedName{cart, other} {
		both.Go(func() {
			if _, err := core.Process(t.Context(), key); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	if n := to.take()["http://hangs"]; n != 1 {
		t.Errorf("asked %d times at once", n)
	}
	if !slices.Contains(c.store.Names(), e.Name) {
		t.Error("an entry is lost")
	}
}
