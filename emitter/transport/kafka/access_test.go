// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/eventing/pkg/eventingtls"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/hosts"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/trust"
	"github.com/knative-cdevents/knative-cdevents/test/certs"
)

func TestLogins(t *testing.T) {
	t.Parallel()
	for _, mechanism := range []string{credentials.Plain, credentials.ScramSHA256, credentials.ScramSHA512} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			c, ca := secured(t, mechanism)
			to := withLogin(sinkAt("kafkas", c.ListenAddrs()))
			// The authority comes with the Secret, as in those of KafkaSink.
			s := login(mechanism, "127.0.0.1")
			s.Data["ca.crt"] = []byte(ca.PEM)
			clients := clientsOf(t, nil, s)
			for n := range 3 {
				checkOutcome(t, clients.Send(t.Context(), to, newEvent(t, "cart", n), quick()), transport.Acknowledged, 200)
			}
			if n := len(clients.pool.Of("source-1")); n != 1 {
				t.Errorf("%d clients for one target", n)
			}
			// This cluster closes the connection, as brokers before 1.0.
			s = login(mechanism, "127.0.0.1")
			s.Data["password"] = []byte(secret + "x")
			to.CACerts = ca.PEM
			out := clientsOf(t, nil, s).Send(t.Context(), to, newEvent(t, "cart", 1), quick())
			checkOutcome(t, out, transport.Retry, 0, "a login", "spec.auth")
		})
	}
}

func TestWithheldLogins(t *testing.T) {
	t.Parallel()
	c, ca := secured(t, credentials.ScramSHA512)
	to := withLogin(sinkAt("kafkas", c.ListenAddrs()))
	to.CACerts = ca.PEM
	plain := withLogin(sinkAt("kafka", c.ListenAddrs()))
	without := login(credentials.ScramSHA512, "127.0.0.1")
	delete(without.Data, "user")
	audience := to
	audience.Credentials = credentials.References{Source: to.Credentials.Source, Audience: "a"}
	for name, tc := range map[string]struct {
		to     transport.Target
		secret *corev1.Secret
		says   string
	}{
		"without TLS":       {plain, login(credentials.ScramSHA512, "127.0.0.1"), "only over kafkas"},
		"for another host":  {to, login(credentials.ScramSHA512, "b.example"), "may not be sent to the sink's host 127.0.0.1"},
		"for no host":       {to, login(credentials.ScramSHA512, ""), "does not say where it may be sent"},
		"without a user":    {to, without, `no key "user"`},
		"unknown mechanism": {to, login(secret, "127.0.0.1"), "SCRAM-SHA-512"},
		"no Secret":         {to, nil, "does not exist"},
		"audience":          {audience, nil, "no tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var secrets []*corev1.Secret
			if tc.secret != nil {
				secrets = append(secrets, tc.secret)
			}
			out := clientsOf(t, nil, secrets...).Send(t.Context(), tc.to, newEvent(t, "cart", 1), quick())
			checkOutcome(t, out, transport.Unauthorized, 0, tc.says)
		})
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	ca, clientCA := certs.NewAuthority(t), certs.NewAuthority(t)
	var subject atomic.Value
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{ca.Issue("broker", time.Hour).TLS},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clientCA.Pool(),
		VerifyConnection: func(state tls.ConnectionState) error {
			subject.Store(state.PeerCertificates[0].Subject.CommonName)
			return nil
		},
	}
	c := cluster(t, kfake.TLS(config))
	pair := clientCA.Issue("me", time.Hour)
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "pair", Annotations: map[string]string{v1alpha1.SinkHostsAnnotation: "127.0.0.1"},
		},
		Type: corev1.SecretTypeTLS, Data: map[string][]byte{"tls.crt": pair.Certificate, "tls.key": pair.Key},
	}
	to := sinkAt("kafkas", c.ListenAddrs())
	out := clientsOf(t, nil).Send(t.Context(), to, newEvent(t, "cart", 1), quick())
	checkOutcome(t, out, transport.Retry, 0, "not trusted")
	to.CACerts = ca.PEM
	out = clientsOf(t, nil).Send(t.Context(), to, newEvent(t, "cart", 1), quick())
	checkOutcome(t, out, transport.Unauthorized, 0, "spec.auth.clientCertificate")
	to.Credentials = credentials.References{
		Source: withLogin(to).Credentials.Source, ClientCertificate: v1alpha1.SecretName{Name: "pair"},
	}
	checkOutcome(t, clientsOf(t, nil, s).Send(t.Context(), to, newEvent(t, "cart", 1), quick()), transport.Acknowledged, 200)
	if subject.Load() == nil {
		t.Error("no client certificate was sent")
	}
	// The trust bundles of the operator count, too.
	bundled := sinkAt("kafkas", c.ListenAddrs())
	bundled.Credentials = to.Credentials
	authorities := trust.New()
	clients := clientsOf(t, func(a *transport.Access) { a.Trust = authorities }, s)
	err := authorities.Add(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "knative-cdevents", Name: "b", Labels: map[string]string{eventingtls.TrustBundleLabelKey: eventingtls.TrustBundleLabelValue},
	}, Data: map[string]string{"ca.crt": ca.PEM}})
	if err != nil {
		t.Fatal(err)
	}
	checkOutcome(t, clients.Send(t.Context(), bundled, newEvent(t, "cart", 1), quick()), transport.Acknowledged, 200)
}

func TestHostsAllowedByTheOperator(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	only := func(list hosts.List) func(*transport.Access) {
		return func(a *transport.Access) { a.Addresses.Hosts = func() hosts.List { return list } }
	}
	out := clientsOf(t, only("b.example")).Send(t.Context(), sinkAt("kafka", c.ListenAddrs()), newEvent(t, "cart", 1), quick())
	checkOutcome(t, out, transport.Unauthorized, 0, "sink-hosts", "127.0.0.1")
	out = clientsOf(t, only("127.0.0.1")).Send(t.Context(), sinkAt("kafka", c.ListenAddrs()), newEvent(t, "cart", 1), quick())
	checkOutcome(t, out, transport.Acknowledged, 200)
}

// A broker that names others must not lead the controller to hosts and addresses that no source may reach.
func TestAdvertisedBrokers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		host   string
		change func(*transport.Access)
		class  transport.Class
		says   string
	}{
		"metadata service": {"169.254.169.254", nil, transport.Retry, "link-local"},
		"loopback": {"127.0.0.2", func(a *transport.Access) {
			a.Addresses.Allowed = loopback[:0:0]
			a.Addresses.Allowed = append(a.Addresses.Allowed, oneHost)
		}, transport.Retry, "loopback"},
		"not on the list": {"localhost", func(a *transport.Access) {
			a.Addresses.Hosts = func() hosts.List { return "127.0.0.1" }
		}, transport.Unauthorized, `host "localhost"`},
		"not a host": {"a b", nil, transport.Unauthorized, "neither a name in DNS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cluster(t, kfake.NumBrokers(1))
			advertise(t, c, tc.host)
			policy := quick()
			policy.Timeout = 2 * time.Second
			out := clientsOf(t, tc.change).Send(t.Context(), sinkAt("kafka", c.ListenAddrs()), newEvent(t, "cart", 1), policy)
			checkOutcome(t, out, tc.class, 0, tc.says)
		})
	}
}

// The owner of a Secret allows it for the bootstrap server, which names another broker.
func TestLoginIsNotSentToAnAdvertisedBroker(t *testing.T) {
	t.Parallel()
	c, ca := secured(t, credentials.Plain)
	advertise(t, c, "localhost")
	to := withLogin(sinkAt("kafkas", c.ListenAddrs()))
	to.CACerts = ca.PEM
	policy := quick()
	policy.Timeout = 2 * time.Second
	out := clientsOf(t, nil, login(credentials.Plain, "127.0.0.1")).Send(t.Context(), to, newEvent(t, "cart", 1), policy)
	checkOutcome(t, out, transport.Unauthorized, 0, `host "localhost"`, "sink-hosts")
}

// advertise has the brokers name another host as theirs.
func advertise(t *testing.T, c *kfake.Cluster, host string) {
	t.Helper()
	_, port, err := net.SplitHostPort(c.ListenAddrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	c.ControlKey(int16(kmsg.Metadata), func(in kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req, ok := in.(*kmsg.MetadataRequest)
		if !ok {
			return nil, fmt.Errorf("%T", in), true
		}
		resp := req.ResponseKind().(*kmsg.MetadataResponse) //nolint:errcheck,forcetypeassert // its own kind
		broker := kmsg.NewMetadataResponseBroker()
		broker.NodeID, broker.Host, broker.Port = 7, host, int32(n) //nolint:gosec // ParseInt limits it
		resp.Brokers, resp.ControllerID = append(resp.Brokers, broker), 7
		for _, asked := range req.Topics {
			topic := kmsg.NewMetadataResponseTopic()
			topic.Topic, topic.TopicID = asked.Topic, [16]byte{1}
			partition := kmsg.NewMetadataResponseTopicPartition()
			partition.Leader, partition.Replicas, partition.ISR = 7, []int32{7}, []int32{7}
			topic.Partitions = append(topic.Partitions, partition)
			resp.Topics = append(resp.Topics, topic)
		}
		return resp, nil, true
	})
}

// What a broker says is not quoted: it may be anything.
func TestBrokersAreNotQuoted(t *testing.T) {
	t.Parallel()
	c, ca := secured(t, credentials.Plain)
	says := secret
	c.ControlKey(int16(kmsg.SASLAuthenticate), func(in kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := in.ResponseKind().(*kmsg.SASLAuthenticateResponse) //nolint:errcheck,forcetypeassert // its own kind
		resp.ErrorCode, resp.ErrorMessage = kerr.SaslAuthenticationFailed.Code, &says
		return resp, nil, true
	})
	to := withLogin(sinkAt("kafkas", c.ListenAddrs()))
	to.CACerts = ca.PEM
	out := clientsOf(t, nil, login(credentials.Plain, "127.0.0.1")).Send(t.Context(), to, newEvent(t, "cart", 1), quick())
	checkOutcome(t, out, transport.Unauthorized, 401, "SASL_AUTHENTICATION_FAILED")
}
