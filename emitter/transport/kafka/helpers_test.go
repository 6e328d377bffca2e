// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials/clientset"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/trust"
	"github.com/knative-cdevents/knative-cdevents/test/certs"
)

const (
	topic  = "releases"
	secret = "s3cret pass"
)

// oneHost is what a test with two loopback addresses allows.
var oneHost = netip.MustParsePrefix("127.0.0.1/32")

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

func newEvent(t *testing.T, object string, n int) event.Event {
	t.Helper()
	ev := event.New()
	ev.SetID(fmt.Sprintf("%s-%d", object, n))
	ev.SetSource("https://cluster.example/1")
	ev.SetType("dev.cdevents.service.deployed.0.3.0")
	ev.SetSubject("service/shop/" + object)
	ev.SetTime(time.Date(2026, 11, 21, 9, 0, 0, 123456000, time.UTC))
	ev.SetExtension("partitionkey", "service/shop/"+object)
	ev.SetExtension("team", "wéb")
	if err := ev.SetData("application/json", map[string]string{"id": object}); err != nil {
		t.Fatal(err)
	}
	return ev
}

func cluster(t *testing.T, options ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(2), kfake.SeedTopics(4, topic)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// sinkAt is the URI of a topic at these servers.
func sinkAt(scheme string, servers []string) transport.Target {
	return transport.Target{URL: scheme + "://" + strings.Join(servers, ",") + "/" + topic, Source: "source-1"}
}

// clientsOf returns clients that may send to loopback addresses, with the Secrets of a namespace.
func clientsOf(t *testing.T, change func(*transport.Access), secrets ...*corev1.Secret) *Clients {
	t.Helper()
	kube := fake.NewClientset()
	for _, s := range secrets {
		if err := kube.Tracker().Add(s); err != nil {
			t.Fatal(err)
		}
	}
	access := transport.Access{
		Addresses:   transport.Addresses{Allowed: loopback},
		Credentials: credentials.NewKeeper(clientset.API{Interface: kube}, Schemes), Trust: trust.New(),
	}
	if change != nil {
		change(&access)
	}
	c := NewClients(access)
	t.Cleanup(func() { c.Forget("source-1") })
	return c
}

func quick() transport.Policy {
	p := transport.DefaultPolicy()
	p.Timeout = 5 * time.Second
	return p
}

func checkOutcome(t *testing.T, out transport.Outcome, class transport.Class, status int, words ...string) {
	t.Helper()
	if out.Class != class || out.Status != status {
		t.Errorf("got %v with status %d (%v), want %v with %d", out.Class, out.Status, out.Err, class, status)
	}
	if class == transport.Acknowledged {
		return
	}
	if out.Err == nil {
		t.Fatal("no error")
	}
	for _, w := range words {
		if !strings.Contains(out.Err.Error(), w) {
			t.Errorf("error %q does not contain %q", out.Err, w)
		}
	}
	if strings.Contains(out.Err.Error(), secret) {
		t.Errorf("error %q reveals a secret", out.Err)
	}
}

// consume returns n records of the topic, those of each partition in order.
func consume(t *testing.T, n int, servers []string) []*kgo.Record {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(servers...), kgo.ConsumeTopics(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var all []*kgo.Record
	for len(all) < n {
		got := c.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			t.Fatalf("%d records of %d: %v", len(all), n, err)
		}
		all = append(all, got.Records()...)
	}
	return all
}

func headers(r *kgo.Record) map[string]string {
	out := map[string]string{}
	for _, h := range r.Headers {
		out[h.Key] = string(h.Value)
	}
	return out
}

func login(mechanism, sinkHosts string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "login", Annotations: map[string]string{v1alpha1.SinkHostsAnnotation: sinkHosts},
		},
		Data: map[string][]byte{"user": []byte("me"), "password": []byte(secret + "\n"), "sasl.mechanism": []byte(mechanism)},
	}
}

func withLogin(to transport.Target) transport.Target {
	to.Credentials = credentials.References{
		Source:        types.NamespacedName{Namespace: "shop", Name: "releases"},
		Authorization: v1alpha1.SecretKey{Name: "login", Key: "password"},
	}
	return to
}

// secured is a cluster with TLS and SASL.
func secured(t *testing.T, mechanism string) (*kfake.Cluster, *certs.Authority) {
	t.Helper()
	ca := certs.NewAuthority(t)
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{ca.Issue("broker", time.Hour).TLS}}
	return cluster(t, kfake.TLS(config), kfake.EnableSASL(), kfake.Superuser(mechanism, "me", secret)), ca
}
