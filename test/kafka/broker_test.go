// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/knative-cdevents/knative-cdevents/test/certs"
)

const (
	user     = "me"
	password = "s3cret pass"
)

// broker is a process with a broker and the controller of its cluster.
type broker struct {
	t      *testing.T
	dir    string
	jars   string
	plain  string // without TLS, for the test itself
	secure string // with TLS and SASL
	ca     *certs.Authority

	running *exec.Cmd
}

// newBroker starts a broker, and stops it at the end of the test.
func newBroker(t *testing.T) *broker {
	t.Helper()
	jars := os.Getenv("KAFKA_JARS")
	if jars == "" {
		t.Skip("KAFKA_JARS is not set; use make test-kafka")
	}
	b := &broker{t: t, dir: t.TempDir(), jars: jars, ca: certs.NewAuthority(t)}
	b.configure()
	b.run("kafka.tools.StorageTool", "format", "--cluster-id", "4L6g3nShT-eMCtK--X86sw", "--config", b.file(),
		"--add-scram", fmt.Sprintf("SCRAM-SHA-512=[name=%s,password=%s]", user, password))
	b.start()
	t.Cleanup(func() { b.stop(syscall.SIGKILL) })
	return b
}

func (b *broker) file() string { return filepath.Join(b.dir, "server.properties") }

func (b *broker) configure() {
	b.t.Helper()
	b.plain, b.secure = freeAddress(b.t), freeAddress(b.t)
	controller := freeAddress(b.t)
	pair := b.ca.Issue("broker", time.Hour)
	oneLine := func(pem []byte) string { return strings.ReplaceAll(strings.TrimSpace(string(pem)), "\n", `\n`) }
	text := strings.Join([]string{
		"process.roles=broker,controller", "node.id=1", "controller.quorum.voters=1@" + controller,
		"controller.listener.names=CONTROLLER", "inter.broker.listener.name=PLAIN",
		"listeners=PLAIN://" + b.plain + ",SECURE://" + b.secure + ",CONTROLLER://" + controller,
		"listener.security.protocol.map=PLAIN:PLAINTEXT,SECURE:SASL_SSL,CONTROLLER:PLAINTEXT",
		"sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512",
		"listener.name.secure.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule " +
			`required user_` + user + `="` + password + `";`,
		"listener.name.secure.scram-sha-512.sasl.jaas.config=" +
			"org.apache.kafka.common.security.scram.ScramLoginModule required;",
		"ssl.keystore.type=PEM", "ssl.keystore.certificate.chain=" + oneLine(pair.Certificate),
		"ssl.keystore.key=" + oneLine(pair.Key),
		"log.dirs=" + filepath.Join(b.dir, "data"), "auto.create.topics.enable=false",
		"offsets.topic.replication.factor=1", "transaction.state.log.replication.factor=1",
		"transaction.state.log.min.isr=1", "controlled.shutdown.enable=false",
		// A broker that was killed may register again as soon as its session ends.
		"broker.session.timeout.ms=2000", "broker.heartbeat.interval.ms=500",
	}, "\n")
	if err := os.WriteFile(b.file(), []byte(text+"\n"), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *broker) java(args ...string) *exec.Cmd {
	all := append([]string{"-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(b.jars, "*")}, args...)
	cmd := exec.Command("java", all...) //nolint:noctx // the test stops it
	cmd.Dir = b.dir
	return cmd
}

func (b *broker) run(args ...string) {
	b.t.Helper()
	if out, err := b.java(args...).CombinedOutput(); err != nil {
		b.t.Fatalf("%s: %v\n%s", args[0], err, out)
	}
}

// start starts the process, and returns when it answers.
func (b *broker) start() {
	b.t.Helper()
	log, err := os.OpenFile(filepath.Join(b.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		b.t.Fatal(err)
	}
	defer log.Close() //nolint:errcheck // the process has its own
	b.running = b.java("kafka.Kafka", b.file())
	b.running.Stdout, b.running.Stderr = log, log
	if err := b.running.Start(); err != nil {
		b.t.Fatal(err)
	}
	c := b.client()
	defer c.Close()
	began := time.Now()
	for {
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
		err = c.Ping(ctx)
		cancel()
		if err == nil {
			b.t.Logf("the broker answers after %s", time.Since(began).Round(100*time.Millisecond))
			return
		}
		if time.Since(began) > time.Minute {
			text, _ := os.ReadFile(filepath.Join(b.dir, "log")) // it is only for the message
			b.t.Fatalf("the broker does not answer: %v\n%s", err, text)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// stop ends the process that start has started.
func (b *broker) stop(how syscall.Signal) {
	b.t.Helper()
	if b.running == nil {
		return
	}
	if err := b.running.Process.Signal(how); err != nil {
		b.t.Error(err)
	}
	var exit *exec.ExitError
	if err := b.running.Wait(); err != nil && !errors.As(err, &exit) {
		b.t.Error(err)
	}
	b.running = nil
}

// client returns one of the test's own, without TLS.
func (b *broker) client(options ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.plain)}, options...)...)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

func (b *broker) createTopic(name string, partitions int32, configs map[string]string) {
	b.t.Helper()
	c := b.client()
	defer c.Close()
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
	for key, value := range configs {
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name, config.Value = key, &value
		topic.Configs = append(topic.Configs, config)
	}
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(b.t.Context(), c)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// ids returns the ids of all events in a topic, those of each partition in order.
func (b *broker) ids(topic string, atLeast int) []string {
	b.t.Helper()
	c := b.client(kgo.ConsumeTopics(topic))
	defer c.Close()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	var all []string
	for {
		wait := ctx
		if len(all) >= atLeast {
			var enough context.CancelFunc
			wait, enough = context.WithTimeout(ctx, 2*time.Second) // there may be duplicates
			defer enough()
		}
		got := c.PollFetches(wait)
		if ctx.Err() != nil {
			b.t.Fatalf("%d events of %d", len(all), atLeast)
		}
		if wait.Err() != nil {
			return all
		}
		for _, r := range got.Records() {
			for _, h := range r.Headers {
				if h.Key == "ce_id" {
					all = append(all, string(h.Value))
				}
			}
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return address
}
