// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bytes"
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

// pieces is a writer that knows the largest piece that it got.
type pieces struct {
	bytes.Buffer
	largest int
}

func (p *pieces) WriteString(s string) (int, error) {
	p.largest = max(p.largest, len(s))
	return p.Buffer.WriteString(s)
}

// Whoever reads the metrics of many shards slowly does not have all of them kept in memory.
func TestMetricsOfManyShards(t *testing.T) {
	const shards = 65536
	m := NewMetrics("Key", shards)
	for s := range shards {
		m.byShard[s], m.slow[s] = [len(outcomes)]int64{1, 0, 1 << 32}, 2
	}
	out := &pieces{}
	m.Write(out, shards, nil)
	if out.largest > 64<<10 {
		t.Errorf("a piece of %d KiB, of %d KiB", out.largest>>10, out.Len()>>10)
	}
	for _, line := range []string{
		`stateful_shard_requests_total{entity_type="Key",shard="0",outcome="ok"} 1`,
		`stateful_shard_requests_total{entity_type="Key",shard="65535",outcome="timeout"} 4294967296`,
		`stateful_shard_slow_requests_total{entity_type="Key",shard="65535"} 2`,
	} {
		if strings.Count(out.String(), line+"\n") != 1 {
			t.Errorf("the metrics lack %s", line)
		}
	}
	if n := strings.Count(out.String(), "\nstateful_shard_requests_total{"); n != 2*shards {
		t.Errorf("%d lines, want %d", n, 2*shards)
	}
}

// The controller knows by the start time that it reads another process, even if that one has counted more already.
func TestStartTime(t *testing.T) {
	began := time.Now()
	m := NewMetrics("Key", 1)
	start := func() string {
		out := &pieces{}
		m.Write(out, 0, nil)
		_, value, _ := strings.Cut(out.String(), "\nprocess_start_time_seconds ")
		value, _, _ = strings.Cut(value, "\n")
		return value
	}
	first := start()
	if at, err := strconv.ParseFloat(first, 64); err != nil || math.Abs(at-float64(began.UnixNano())/1e9) > 1 {
		t.Errorf("it began at %v (%v), want %d", at, err, began.Unix())
	}
	time.Sleep(10 * time.Millisecond)
	if again := start(); again != first {
		t.Errorf("it began at %s, and at %s", first, again)
	}
}

// A client that ends a stream is no failure of the container. One that waits in vain for the answer is.
func TestOutcomes(t *testing.T) {
	for name, c := range map[string]struct {
		status                int
		grpc                  string
		complete, gone, early bool
		want                  int
		length                string
	}{
		"answered":                            {200, "", true, false, true, ok, ""},
		"refused":                             {404, "", true, false, true, ok, ""},
		"failed":                              {500, "", true, false, true, failed, ""},
		"a call that failed":                  {200, "13", true, false, true, failed, ""},
		"a call whose deadline passed":        {200, "4", true, false, true, timedOut, ""},
		"the container ends in the middle":    {200, "", false, false, true, failed, ""},
		"the client ends a stream":            {200, "", false, true, true, ok, ""},
		"an answer hangs, which is no stream": {200, "", false, true, true, timedOut, "1000"},
		"a stream ends with the time-out":     {200, "", false, true, false, timedOut, ""},
		"a WebSocket ends":                    {101, "", false, true, true, ok, ""},
		"no answer, and the client gives up":  {0, "", false, true, true, timedOut, ""},
		"an error, since the client has gone": {502, "", true, true, true, timedOut, ""},
		"a time-out":                          {504, "", true, false, true, timedOut, ""},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if c.gone {
			cancel()
		}
		w := &recorder{ResponseWriter: httptest.NewRecorder(), status: c.status}
		if c.grpc != "" {
			w.Header().Set("Grpc-Status", c.grpc)
		}
		if c.length != "" {
			w.Header().Set("Content-Length", c.length)
		}
		got := outcomeOf(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil), c.complete, c.early)
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, outcomes[got], outcomes[c.want])
		}
		cancel()
	}
}
