// SPDX-License-Identifier: Apache-2.0

package scrape

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

// Memory gives the same result as a new parse while values change and series come and go.
func TestMemoryReadsTheSame(t *testing.T) {
	t.Parallel()
	reader := mapping.NewReader(mapping.Neutral())
	m := NewMemory(reader)
	for n := range 20 {
		var text strings.Builder
		for shard := n; shard < n+3; shard++ {
			fmt.Fprintf(&text, "stateful_shard_requests_total{entity_type=\"Cart\",shard=\"%d\",outcome=\"ok\"} %d\n", shard,
				n*shard)
			fmt.Fprintf(&text, "stateful_shard_requests_total{outcome=\"error\", shard=\"%d\", entity_type=\"Ca\\\"rt\"} %d\n",
				shard, n+shard)
		}
		// Comments, series that no mapping names, and values and lines in every allowed form.
		fmt.Fprintf(&text, "# HELP other n\n# TYPE other gauge\nother{a=\"b\"} %d\nother %d 1700000000000\nprocess_start_time_seconds 1.7e+09\n\n", n, n)
		fmt.Fprintf(&text, "stateful_requests_started_total  %d\nstateful_requests_started_total{entity_type=\"B\"} %s\n", n,
			[]string{"NaN", "1e3", "+Inf", "7", "-1"}[n%5])
		fmt.Fprintf(&text, "stateful_requests_total{outcome=\"ok\",cluster=\"a\"} %d\nstateful_requests_total{outcome=\"ok\",cluster=\"b\"} 1\n", n)
		want, err := Parse([]byte(text.String()), "", reader, 100)
		if err != nil {
			t.Fatal(err)
		}
		body := []byte(text.String())
		got, err := m.Parse(body, "", 100)
		if err != nil {
			t.Fatal(err)
		}
		clear(body) // the buffer is reused from now on
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("reading %d: %s", n, diff)
		}
		if len(m.known) > 2*16 {
			t.Errorf("%d series are remembered, of 16 lines", len(m.known))
		}
	}
}

// A rejected exposition must not be remembered without limit either.
func TestMemoryOfAFlood(t *testing.T) {
	t.Parallel()
	m := NewMemory(mapping.NewReader(mapping.Neutral()))
	for n := range 20 {
		var text strings.Builder
		for i := range 50 {
			fmt.Fprintf(&text, "stateful_requests_total{outcome=\"ok\",id=\"%d-%d\"} 1\n", n, i)
		}
		if _, err := m.Parse([]byte(text.String()), "", 10); err == nil {
			t.Fatal("it was accepted")
		}
	}
	if len(m.known) > 10 {
		t.Errorf("%d series are remembered", len(m.known))
	}
}

// A line that was accepted before does not excuse an error now.
func TestMemoryStillRefuses(t *testing.T) {
	t.Parallel()
	const good = "# TYPE a counter\na{b=\"c\"} 1\nstateful_requests_total{outcome=\"ok\"} 1\n"
	for _, bad := range []string{
		"a{b=\"c\"} 0x1p-2\n", "a{b=\"c\"} 1_000\n", "a{b=\"c\"} x\n", "a{b=\"c\"}\n",
		"<html>\n", "# TYPE a what\n", "a{b=\"c\"} 1 x\n",
	} {
		m := NewMemory(mapping.NewReader(mapping.Neutral()))
		for range 2 {
			if _, err := m.Parse([]byte(good), "", 100); err != nil {
				t.Fatal(err)
			}
		}
		_, fresh := Parse([]byte(good+bad), "", m.reader, 100)
		_, known := m.Parse([]byte(good+bad), "", 100)
		if fresh == nil || known == nil {
			t.Errorf("%q: %v when it is new, %v when much of it is known", bad, fresh, known)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	body, err := os.ReadFile(filepath.Join("..", "mapping", "testdata", "queue-proxy.txt"))
	if err != nil {
		b.Fatal(err)
	}
	m := NewMemory(mapping.Entry())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Parse(body, "text/plain; version=0.0.4", 1000); err != nil {
			b.Fatal(err)
		}
	}
}
