// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials/clientset"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/kafka"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/trust"
)

const (
	objects = 20
	events  = 150
)

func newEvent(object string, n int) event.Event {
	ev := event.New()
	ev.SetID(fmt.Sprintf("%s-%d", object, n))
	ev.SetSource("https://cluster.example")
	ev.SetType("dev.cdevents.service.deployed.0.3.0")
	ev.SetSubject("service/shop/" + object)
	ev.SetTime(time.Now())
	ev.SetExtension("partitionkey", "service/shop/"+object)
	if err := ev.SetData("application/json", map[string]string{"id": object}); err != nil {
		panic(err)
	}
	return ev
}

// clients return the transport with a Secret that has this password.
func clients(t *testing.T, mechanism, password string) *kafka.Clients {
	t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "kafka", Annotations: map[string]string{v1alpha1.SinkHostsAnnotation: "127.0.0.1"},
		},
		Data: map[string][]byte{"user": []byte(user), "password": []byte(password), "sasl.mechanism": []byte(mechanism)},
	}
	c := kafka.NewClients(transport.Access{
		Addresses:   transport.Addresses{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		Credentials: credentials.NewKeeper(clientset.API{Interface: fake.NewClientset(secret)}, kafka.Schemes), Trust: trust.New(),
	})
	t.Cleanup(func() { c.Forget("source") })
	return c
}

func (b *broker) target(topic string) transport.Target {
	return transport.Target{
		URL: "kafkas://" + b.secure + "/" + topic, CACerts: b.ca.PEM, Source: "source",
		Credentials: credentials.References{
			Source:        types.NamespacedName{Namespace: "shop", Name: "releases"},
			Authorization: v1alpha1.SecretKey{Name: "kafka", Key: "password"},
		},
	}
}

// TestOrderOverRestarts sends while the broker is stopped, killed and started again, with attempts that end long
// before it answers again.
func TestOrderOverRestarts(t *testing.T) {
	b := newBroker(t)
	b.createTopic("releases", 6, nil)
	c, to, policy := clients(t, credentials.ScramSHA512, password), b.target("releases"), transport.DefaultPolicy()
	policy.Timeout = time.Second
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	var attempts, accepted atomic.Int64
	for o := range objects {
		wg.Go(func() {
			for n := range events {
				ev := newEvent(fmt.Sprint("service-", o), n)
				for {
					attempts.Add(1)
					if c.Send(ctx, to, ev, policy).Class == transport.Acknowledged {
						break
					}
					if ctx.Err() != nil {
						t.Errorf("service-%d: event %d was not sent in time", o, n)
						return
					}
					time.Sleep(50 * time.Millisecond)
				}
				accepted.Add(1)
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	for _, how := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		time.Sleep(time.Second)
		before := accepted.Load()
		b.stop(how)
		b.start()
		t.Logf("%s: %d of %d events were accepted before", how, before, objects*events)
		if before == 0 || before == objects*events {
			t.Errorf("the broker was not stopped in the middle")
		}
	}
	wg.Wait()
	next, twice := map[string]int{}, 0
	for _, id := range b.ids("releases", objects*events) {
		i := strings.LastIndexByte(id, '-')
		var n int
		if _, err := fmt.Sscan(id[i+1:], &n); err != nil {
			t.Fatal(err)
		}
		switch object := id[:i]; n {
		case next[object]:
			next[object]++
		case next[object] - 1:
			twice++
		default:
			t.Errorf("%s: event %d came when %d was next", object, n, next[object])
		}
	}
	for o := range objects {
		if n := next[fmt.Sprint("service-", o)]; n != events {
			t.Errorf("service-%d: %d events, want %d", o, n, events)
		}
	}
	t.Logf("%d events of %d objects came in order over two restarts, none was lost, %d came twice; %d attempts",
		objects*events, objects, twice, attempts.Load())
}

func TestAnswersOfARealBroker(t *testing.T) {
	b := newBroker(t)
	b.createTopic("small", 1, map[string]string{"max.message.bytes": "2000"})
	large := newEvent("cart", 1)
	if err := large.SetData("text/plain", strings.Repeat("x", 3000)); err != nil {
		t.Fatal(err)
	}
	structured := transport.DefaultPolicy()
	structured.Mode = transport.Structured
	for name, tc := range map[string]struct {
		clients *kafka.Clients
		topic   string
		ev      event.Event
		policy  transport.Policy
		class   transport.Class
		status  int
	}{
		"PLAIN":          {clients(t, credentials.Plain, password), "small", newEvent("cart", 1), transport.DefaultPolicy(), transport.Acknowledged, 200},
		"structured":     {clients(t, credentials.ScramSHA512, password), "small", newEvent("cart", 2), structured, transport.Acknowledged, 200},
		"wrong password": {clients(t, credentials.ScramSHA512, "another"), "small", newEvent("cart", 3), transport.DefaultPolicy(), transport.Unauthorized, 401},
		"not enabled":    {clients(t, credentials.ScramSHA256, password), "small", newEvent("cart", 3), transport.DefaultPolicy(), transport.Unauthorized, 401},
		"too large":      {clients(t, credentials.Plain, password), "small", large, transport.DefaultPolicy(), transport.Poison, 413},
		"unknown topic":  {clients(t, credentials.Plain, password), "other", newEvent("cart", 4), transport.DefaultPolicy(), transport.Retry, 404},
	} {
		out := tc.clients.Send(t.Context(), b.target(tc.topic), tc.ev, tc.policy)
		if out.Class != tc.class || out.Status != tc.status {
			t.Errorf("%s: %v with status %d, %v", name, out.Class, out.Status, out.Err)
		}
		t.Logf("%s: %v, %v", name, out.Class, out.Err)
	}
}
