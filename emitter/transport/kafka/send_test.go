// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
)

func TestBinaryMode(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	ev := newEvent(t, "cart", 1)
	checkOutcome(t, clientsOf(t, nil).Send(t.Context(), sinkAt("kafka", c.ListenAddrs()), ev, quick()), transport.Acknowledged, 200)
	r := consume(t, 1, c.ListenAddrs())[0]
	if string(r.Key) != "service/shop/cart" || string(r.Value) != `{"id":"cart"}` {
		t.Errorf("key %s, value %s", r.Key, r.Value)
	}
	want := map[string]string{
		"ce_specversion": "1.0", "ce_id": "cart-1", "ce_source": ev.Source(), "ce_type": ev.Type(), "ce_subject": ev.Subject(),
		"ce_time": "2026-11-21T09:00:00.123456Z", "ce_team": "wéb", "ce_partitionkey": "service/shop/cart",
		"content-type": "application/json",
	}
	got := headers(r)
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %q, want %q", name, got[name], value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("headers %v", got)
	}
}

func TestStructuredMode(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	ev, policy := newEvent(t, "cart", 1), quick()
	policy.Mode = transport.Structured
	checkOutcome(t, clientsOf(t, nil).Send(t.Context(), sinkAt("kafka", c.ListenAddrs()), ev, policy), transport.Acknowledged, 200)
	r := consume(t, 1, c.ListenAddrs())[0]
	var back event.Event
	if err := json.Unmarshal(r.Value, &back); err != nil || back.String() != ev.String() {
		t.Errorf("%s: %v", r.Value, err)
	}
	if got := headers(r); string(r.Key) != "service/shop/cart" || len(got) != 1 ||
		got["content-type"] != "application/cloudevents+json; charset=UTF-8" {
		t.Errorf("key %s, headers %v", r.Key, got)
	}
	ev.SetExtension("partitionkey", "")
	if string(keyOf(ev)) != ev.Subject() {
		t.Errorf("key %q without a partitionkey", keyOf(ev))
	}
}

// deliver sends the events of some objects, those of each one after the other, until they are accepted.
func deliver(ctx context.Context, t *testing.T, clients *Clients, to transport.Target, objects, events int, policy transport.Policy) {
	t.Helper()
	var wg sync.WaitGroup
	for o := range objects {
		wg.Go(func() {
			for n := range events {
				time.Sleep(5 * time.Millisecond)
				ev := newEvent(t, fmt.Sprint("service-", o), n)
				for clients.Send(ctx, to, ev, policy).Class != transport.Acknowledged {
					if ctx.Err() != nil {
						t.Errorf("service-%d was not sent event %d in time", o, n)
						return
					}
					time.Sleep(20 * time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
}

// checkOrder asserts that the events of each object came in order, none was lost, and returns how many came twice.
func checkOrder(t *testing.T, ids []string, objects, events int) (twice int) {
	t.Helper()
	last := map[string]int{}
	for _, id := range ids {
		i := strings.LastIndexByte(id, '-')
		var n int
		if _, err := fmt.Sscan(id[i+1:], &n); err != nil {
			t.Fatal(err)
		}
		next, object := last[id[:i]], id[:i]
		switch n {
		case next:
			last[object] = n + 1
		case next - 1:
			twice++
		default:
			t.Errorf("%s: event %d after %d", object, n, next-1)
		}
	}
	for o := range objects {
		if n := last[fmt.Sprint("service-", o)]; n != events {
			t.Errorf("service-%d: %d events, want %d", o, n, events)
		}
	}
	return twice
}

func TestOrderOverARestart(t *testing.T) {
	t.Parallel()
	dir, ports := t.TempDir(), freePorts(t)
	start := func() *kfake.Cluster {
		return cluster(t, kfake.DataDir(dir), kfake.Ports(ports...), kfake.SyncWrites())
	}
	c := start()
	servers := c.ListenAddrs()
	clients := clientsOf(t, nil)
	policy := quick()
	policy.Timeout = time.Second
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		deliver(ctx, t, clients, sinkAt("kafka", servers), 8, 200, policy)
	}()
	for range 3 {
		time.Sleep(20 * time.Millisecond)
		c.Close()
		time.Sleep(200 * time.Millisecond)
		c = start()
	}
	select {
	case <-done:
		t.Error("all events were sent before the last restart")
	default:
	}
	<-done
	var ids []string
	for _, r := range consume(t, 8*200, servers) {
		ids = append(ids, headers(r)["ce_id"])
	}
	t.Logf("%d events came twice", checkOrder(t, ids, 8, 200))
}

func freePorts(t *testing.T) []int {
	t.Helper()
	var ports []int
	for range 2 {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, l.Addr().(*net.TCPAddr).Port) //nolint:errcheck,forcetypeassert // a TCP listener
		defer l.Close()                                     //nolint:errcheck // the cluster uses the port
	}
	return ports
}

// The brokers write a record, and their answer comes after the attempt has ended.
func TestLateAnswerIsNotAskedForTwice(t *testing.T) {
	t.Parallel()
	c := cluster(t, kfake.NumBrokers(1), kfake.SleepOutOfOrder())
	clients, to := clientsOf(t, nil), sinkAt("kafka", c.ListenAddrs())
	checkOutcome(t, clients.Send(t.Context(), to, newEvent(t, "cart", 0), quick()), transport.Acknowledged, 200)
	var produced atomic.Int32
	hold := make(chan struct{})
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if produced.Add(1) == 1 {
			c.SleepControl(func() { <-hold })
		}
		return nil, nil, false
	})
	policy := quick()
	policy.Timeout = 300 * time.Millisecond
	began := time.Now()
	checkOutcome(t, clients.Send(t.Context(), to, newEvent(t, "cart", 1), policy), transport.Retry, 0, "no answer within 300ms")
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("took %s", took)
	}
	time.AfterFunc(200*time.Millisecond, func() { close(hold) })
	checkOutcome(t, clients.Send(t.Context(), to, newEvent(t, "cart", 1), quick()), transport.Acknowledged, 200)
	checkOutcome(t, clients.Send(t.Context(), to, newEvent(t, "cart", 2), quick()), transport.Acknowledged, 200)
	var ids []string
	for _, r := range consume(t, 3, c.ListenAddrs()) {
		ids = append(ids, headers(r)["ce_id"])
	}
	if got := strings.Join(ids, " "); got != "cart-0 cart-1 cart-2" {
		t.Errorf("got %s", got)
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err    *kerr.Error
		class  transport.Class
		status int
		says   string
	}{
		{kerr.TopicAuthorizationFailed, transport.Unauthorized, 403, "allow the user"},
		{kerr.ClusterAuthorizationFailed, transport.Unauthorized, 403, "allow the user"},
		{kerr.MessageTooLarge, transport.Poison, 413, "larger than the topic allows"},
		{kerr.InvalidRecord, transport.Poison, 400, "for good"},
		{kerr.PolicyViolation, transport.Retry, 503, "policies"},
		{kerr.UnknownServerError, transport.Retry, 503, "logs"},
	} {
		t.Run(tc.err.Message, func(t *testing.T) {
			t.Parallel()
			c := cluster(t)
			c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: tc.err, Count: -1})
			clients := clientsOf(t, nil)
			out := clients.Send(t.Context(), sinkAt("kafka", c.ListenAddrs()), newEvent(t, "cart", 1), quick())
			checkOutcome(t, out, tc.class, tc.status, tc.says, tc.err.Message, "sending to kafka://127.0.0.1")
		})
	}
}

// What a client of Kafka tries again by itself does not end the attempt.
func TestPassingErrors(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	for _, err := range []*kerr.Error{kerr.NotLeaderForPartition, kerr.NotEnoughReplicas, kerr.RequestTimedOut} {
		c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: err})
	}
	clients := clientsOf(t, nil)
	checkOutcome(t, clients.Send(t.Context(), sinkAt("kafka", c.ListenAddrs()), newEvent(t, "cart", 1), quick()), transport.Acknowledged, 200)
	if n := len(consume(t, 1, c.ListenAddrs())); n != 1 {
		t.Errorf("%d records, want one", n)
	}
}

func TestUnknownTopic(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	to := sinkAt("kafka", c.ListenAddrs())
	to.URL = strings.TrimSuffix(to.URL, topic) + "other"
	clients := clientsOf(t, nil)
	checkOutcome(t, clients.Send(t.Context(), to, newEvent(t, "cart", 1), quick()), transport.Retry, 404, "create the topic")
	if err := c.CreateTopic("other", 1, nil); err != nil {
		t.Fatal(err)
	}
	checkOutcome(t, clients.Send(t.Context(), to, newEvent(t, "cart", 1), quick()), transport.Acknowledged, 200)
}

func TestOversize(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	ev := newEvent(t, "cart", 1)
	if err := ev.SetData("text/plain", strings.Repeat("x", maxRecord+1)); err != nil {
		t.Fatal(err)
	}
	clients, to := clientsOf(t, nil), sinkAt("kafka", c.ListenAddrs())
	checkOutcome(t, clients.Send(t.Context(), to, ev, quick()), transport.Poison, 413, "MESSAGE_TOO_LARGE")
	checkOutcome(t, clients.Send(t.Context(), to, newEvent(t, "cart", 2), quick()), transport.Acknowledged, 200)
	invalid := newEvent(t, "cart", 3)
	invalid.SetID("")
	checkOutcome(t, clients.Send(t.Context(), to, invalid, quick()), transport.Poison, 0, "not a valid CloudEvent")
}

func TestUnreachableBrokers(t *testing.T) {
	t.Parallel()
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	for name, tc := range map[string]struct{ url, says string }{
		"refused":     {"kafka://127.0.0.1:1/t", "nothing listens there"},
		"no host":     {"kafka://no-such-host.invalid/t", "does not exist in DNS"},
		"silent":      {"kafka://" + silent.Addr().String() + "/t", "no answer within 1s"},
		"not allowed": {"kafka://169.254.169.254/t", "link-local"},
		"no topic":    {"kafka://b1", "name of a topic"},
		"no URI":      {"kafka://[::1", "cannot be used"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy := quick()
			policy.Timeout = time.Second
			out := clientsOf(t, nil).Send(t.Context(), transport.Target{URL: tc.url, Source: "source-1"}, newEvent(t, "cart", 1), policy)
			checkOutcome(t, out, transport.Retry, 0, tc.says)
		})
	}
}

func TestShutdownEndsTheAttempt(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	hold := make(chan struct{})
	defer close(hold)
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.SleepControl(func() { <-hold })
		return nil, nil, false
	})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	out := clientsOf(t, nil).Send(ctx, sinkAt("kafka", c.ListenAddrs()), newEvent(t, "cart", 1), transport.DefaultPolicy())
	checkOutcome(t, out, transport.Retry, 0, "stopping")
	if !errors.Is(out.Err, context.Canceled) {
		t.Error(out.Err)
	}
}

func TestClientsAreBoundedAndForgotten(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	clients := clientsOf(t, nil)
	for i := range 3 * transport.PerSource {
		name := fmt.Sprint("t", i)
		if err := c.CreateTopic(name, 1, nil); err != nil {
			t.Fatal(err)
		}
		to := sinkAt("kafka", c.ListenAddrs())
		to.URL = strings.TrimSuffix(to.URL, topic) + name
		checkOutcome(t, clients.Send(t.Context(), to, newEvent(t, "cart", i), quick()), transport.Acknowledged, 200)
	}
	if n := len(clients.pool.Of("source-1")); n != transport.PerSource {
		t.Errorf("%d clients", n)
	}
	one := clients.pool.Of("source-1")[0]
	one.acquire()
	clients.Forget("source-1")
	clients.Forget("never seen")
	if len(clients.pool.All()) != 0 {
		t.Error("clients are left")
	}
	if err := one.Ping(t.Context()); err != nil {
		t.Errorf("a client was closed under an attempt: %v", err)
	}
	one.release()
	if err := one.Ping(t.Context()); err == nil {
		t.Error("a forgotten client was not closed")
	}
}
