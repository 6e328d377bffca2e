// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Collector is a real OpenTelemetry Collector on this machine, which pods reach too. It passes on what it receives, as
// JSON, to where the tests query it.
type Collector struct {
	// Endpoint accepts spans by OTLP over HTTP.
	Endpoint string

	mu     sync.Mutex
	traces map[string][]Span
	bad    error
}

// Span is a span of a trace.
type Span struct {
	ID, Parent, Name string
	// Service is what has sent it, and Replica the pod.
	Service, Replica string
	Start, End       time.Time
	// Failed says that its status is an error.
	Failed bool
	Tags   map[string]string
}

// collecting is the configuration, with the address to receive at and the one to send to.
const collecting = `
receivers: {otlp: {protocols: {http: {endpoint: "%s"}}}}
exporters: {otlphttp: {traces_endpoint: "%s", encoding: json, compression: none}}
service:
  pipelines: {traces: {receivers: [otlp], exporters: [otlphttp]}}
  telemetry: {metrics: {level: none}, logs: {level: warn}}
`

// StartCollector builds the Collector of test/cluster/parts, and starts it. It runs until the context ends.
func (k *Kit) StartCollector(ctx context.Context) (*Collector, error) {
	program := k.Path("bin", "collector")
	_, err := run(ctx, k.Path("test", "cluster", "parts", "collector"), []string{"CGO_ENABLED=0", "GOWORK=off"}, "go", "build", "-trimpath", "-buildvcs=false", "-o", program, ".")
	if err != nil {
		return nil, fmt.Errorf("building the Collector: %w", err)
	}
	server, err := url.Parse(k.Config.Host)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the cluster: %w", err)
	}
	at := net.JoinHostPort(server.Hostname(), "24318")
	c := &Collector{Endpoint: "http://" + at + "/v1/traces", traces: map[string][]Span{}}
	store := httptest.NewServer(http.HandlerFunc(c.store))
	config := filepath.Join(k.Path("bin"), "collector.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, collecting, at, store.URL), 0o600); err != nil {
		return nil, fmt.Errorf("configuring the Collector: %w", err)
	}
	cmd := exec.CommandContext(ctx, program, "--config", "file:"+config)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the Collector: %w", err)
	}
	go func() {
		_ = cmd.Wait() // the context ends it
		store.Close()
	}()
	return c, Wait(ctx, time.Minute, "the Collector", func(ctx context.Context) error {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", at)
		if err != nil {
			return NotYet("%v", err)
		}
		return connection.Close()
	})
}

// Traces returns all spans of each trace that has a span of a service with these tags, in the order in which they
// began.
func (c *Collector) Traces(service string, tags map[string]string) (map[string][]Span, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string][]Span{}
	for id, spans := range c.traces {
		if slices.ContainsFunc(spans, func(s Span) bool { return s.Service == service && s.has(tags) }) {
			out[id] = slices.SortedFunc(slices.Values(spans), func(a, b Span) int { return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Name, b.Name)) })
		}
	}
	return out, c.bad
}

func (s Span) has(tags map[string]string) bool {
	for key, value := range tags {
		if s.Tags[key] != value {
			return false
		}
	}
	return true
}

func (c *Collector) store(_ http.ResponseWriter, r *http.Request) {
	var sent sentSpans
	err := json.NewDecoder(r.Body).Decode(&sent)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.bad = fmt.Errorf("reading what the Collector sent: %w", err)
		return
	}
	sent.addTo(c.traces)
}

// sentSpans is a request of OTLP, as JSON.
type sentSpans struct {
	ResourceSpans []struct {
		Resource   struct{ Attributes attributes }
		ScopeSpans []struct {
			Spans []struct {
				TraceID, SpanID, ParentSpanID, Name string
				StartTimeUnixNano, EndTimeUnixNano  string
				Attributes                          attributes
				Status                              struct{ Code int }
			}
		}
	}
}

type attributes []struct {
	Key   string
	Value map[string]any
}

func (a attributes) read() map[string]string {
	out := map[string]string{}
	for _, one := range a {
		for _, value := range one.Value {
			out[one.Key] = fmt.Sprint(value)
		}
	}
	return out
}

// failed is the code of an error, in the status of a span.
const failed = 2

func (s sentSpans) addTo(traces map[string][]Span) {
	nanos := func(text string) time.Time {
		n, _ := strconv.ParseInt(text, 10, 64) // a number, says OTLP
		return time.Unix(0, n)
	}
	for _, resource := range s.ResourceSpans {
		of := resource.Resource.Attributes.read()
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				traces[span.TraceID] = append(traces[span.TraceID], Span{
					ID: span.SpanID, Parent: span.ParentSpanID, Name: span.Name, Service: of["service.name"], Replica: of["k8s.pod.name"],
					Start: nanos(span.StartTimeUnixNano), End: nanos(span.EndTimeUnixNano), Failed: span.Status.Code == failed, Tags: span.Attributes.read(),
				})
			}
		}
	}
}
