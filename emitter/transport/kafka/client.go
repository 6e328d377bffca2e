// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials"
)

const (
	clientID = "knative-cdevents"
	// readLimit limits an answer of a broker. The largest lists the brokers, and the partitions of one topic.
	readLimit = 4 << 20
	// maxRecord limits a record, as brokers do by default; theirs decides.
	maxRecord = 1 << 20
	// maxBuffered limits the records of a client that have no answer yet.
	maxBuffered = 1024
	// metadataAge is how soon a client asks again where a partition is, as after a restart of its broker.
	metadataAge = 500 * time.Millisecond
	idleTimeout = 90 * time.Second
	// longestPause is the longest between two tries of the client within one attempt.
	longestPause = time.Second
)

// client is a producer for one target.
type client struct {
	*kgo.Client
	dialer *dialer
	topic  string
	// values and trust are what the client was made with. When they change, it is not used again.
	values credentials.Values
	trust  int64

	mu sync.Mutex
	// checked says that the brokers were reached and know the topic, and that nothing failed since.
	checked bool
	// open are the records whose attempt has ended before their answer.
	open map[digest]*sending
	// users counts the attempts under way, and dropped says that the client closes with the last of them.
	users   int
	dropped bool
}

// newClient returns a client. It connects at first use.
func newClient(to address, caCerts string, access transport.Access, values credentials.Values) (*client, error) {
	d := &dialer{addresses: access.Addresses, values: values}
	if to.tls {
		// A final line break separates the certificates.
		config, err := access.Trust.TLS(strings.TrimSpace(caCerts + "\n" + values.CACerts()))
		if err != nil {
			return nil, err
		}
		if pair := values.Certificate(); pair != nil {
			config.Certificates = append(config.Certificates, *pair)
		}
		d.tls = config
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(to.servers...), kgo.Dialer(d.dial), kgo.ClientID(clientID),
		kgo.RequiredAcks(kgo.AllISRAcks()), // idempotent by default
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(0),
		kgo.ProducerBatchMaxBytes(maxRecord), kgo.MaxBufferedRecords(maxBuffered),
		kgo.BrokerMaxReadBytes(readLimit), kgo.FetchMaxBytes(readLimit), kgo.DisableClientMetrics(),
		kgo.MetadataMinAge(metadataAge), kgo.ConnIdleTimeout(idleTimeout), kgo.RequestRetries(2),
		kgo.RetryBackoffFn(func(tries int) time.Duration {
			return min(50*time.Millisecond<<min(tries, 10), longestPause)
		}),
	}
	if login, ok := values.Login(); ok {
		options = append(options, kgo.SASL(mechanismOf(login)))
	}
	producer, err := kgo.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &client{Client: producer, dialer: d, topic: to.topic, values: values, open: map[digest]*sending{}}, nil
}

func mechanismOf(login credentials.Login) sasl.Mechanism {
	auth := scram.Auth{User: login.User, Pass: login.Password}
	switch login.Mechanism {
	case credentials.Plain:
		return plain.Auth{User: login.User, Pass: login.Password}.AsMechanism()
	case credentials.ScramSHA256:
		return auth.AsSha256Mechanism()
	}
	return auth.AsSha512Mechanism()
}

// check asks a broker for the topic, unless all was well lately. A record would wait for its topic until the end
// of the attempt, and its error would not say why.
func (c *client) check(ctx context.Context) error {
	c.mu.Lock()
	checked := c.checked
	c.mu.Unlock()
	if checked {
		return nil
	}
	req := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &c.topic
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, c.Client)
	if err != nil {
		return err //nolint:wrapcheck // explained by the caller
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return err //nolint:wrapcheck // explained by the caller
		}
	}
	c.note(true)
	return nil
}

// note says whether all is well.
func (c *client) note(well bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checked = well
}
