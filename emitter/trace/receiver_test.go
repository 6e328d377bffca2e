// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"knative.dev/pkg/observability/tracing"

	"github.com/knative-cdevents/knative-cdevents/test/telemetry"
)

// receiver receives spans by OTLP.
type receiver struct {
	url string
	mu  sync.Mutex
	got map[string][]*otlp.Span
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{got: map[string][]*otlp.Span{}}
	r.url = telemetry.Receive(t, func(m *collector.ExportTraceServiceRequest) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, resource := range m.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				for _, s := range scope.Spans {
					r.got[s.Name] = append(r.got[s.Name], s)
				}
			}
		}
	})
	return r
}

func (r *receiver) config(rate float64) tracing.Config {
	return tracing.Config{Protocol: tracing.ProtocolHTTPProtobuf, Endpoint: r.url + "/v1/traces", SamplingRate: rate}
}

// spans returns the spans that were received, by name.
func (r *receiver) spans() map[string][]*otlp.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got
}

func nanos(n uint64) time.Time { return time.Unix(0, int64(n)).UTC() } //nolint:gosec // it is a time of ours

// TestJaeger asks a real Jaeger for a rollout in the middle of which the controller was replaced. It runs if JAEGER is
// the path of Jaeger's all-in-one:
//
//	(cd test/cluster/parts/jaeger && CGO_ENABLED=0 go build -trimpath -o /tmp/jaeger github.com/jaegertracing/jaeger/cmd/all-in-one)
//	JAEGER=/tmp/jaeger go test -count=1 -v -run TestJaeger ./emitter/trace
func TestJaeger(t *testing.T) {
	binary := os.Getenv("JAEGER")
	if binary == "" {
		t.Skip("JAEGER does not name a binary of Jaeger; a comment on this test says how to build one")
	}
	cmd := exec.CommandContext(t.Context(), binary, "--collector.otlp.http.host-port=127.0.0.1:24318", "--collector.otlp.grpc.host-port=127.0.0.1:24317", //nolint:gosec // whoever runs the test names it
		"--query.http-server.host-port=127.0.0.1:26686", "--query.grpc-server.host-port=127.0.0.1:26685",
		"--admin.http.host-port=127.0.0.1:24269",
		"--collector.grpc-server.host-port=127.0.0.1:24250", "--collector.http-server.host-port=127.0.0.1:24268")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	eventually(t, func() bool {
		resp, err := http.Get("http://127.0.0.1:24269/") //nolint:noctx // a test
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	marked := play(t, tracing.Config{
		Protocol: tracing.ProtocolHTTPProtobuf, Endpoint: "http://127.0.0.1:24318/v1/traces",
		SamplingRate: 1,
	}, rollout(true, nil))
	id := strings.Split(cdeventsTraceParent(t, marked[0]), "-")[1]
	var names []string
	eventually(t, func() bool {
		names = queried(t, id)
		return len(names) == 9
	})
	slices.Sort(names)
	t.Logf("Jaeger has trace %s with the spans %q", id, names)
	if !slices.Contains(names, "rollout of cart-2") || !slices.Contains(names, "gate cart-gate") ||
		!slices.Contains(names, "service.rolledback") {
		t.Errorf("%q", names)
	}
}

// queried returns the names of the spans that Jaeger has of a trace.
func queried(t *testing.T, id string) []string {
	t.Helper()
	resp, err := http.Get("http://127.0.0.1:26686/api/traces/" + id) //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct {
		Data []struct {
			Spans []struct {
				OperationName string `json:"operationName"`
			} `json:"spans"`
		} `json:"data"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	if len(answer.Data) > 1 {
		t.Errorf("%d traces", len(answer.Data))
	}
	var out []string
	for _, trace := range answer.Data {
		for _, s := range trace.Spans {
			out = append(out, s.OperationName)
		}
	}
	return out
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within a minute")
		}
	}
}
