// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bytes"
	"math"
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
