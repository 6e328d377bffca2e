// SPDX-License-Identifier: Apache-2.0

package scrape

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/google/go-cmp/cmp"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

// flood returns an exposition with n series that have a meaning and n that have none.
func flood(name string, n int) []byte {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "stateful_shard_requests_total{shard=\"%s-%d\",outcome=\"ok\"} 1\nother{id=\"%s-%d\"} 1\n", name,
			i, name, i)
	}
	return []byte(text.String())
}

// All pods together have a limit, one Service may use half of it, and each pod has its minimum.
func TestBudget(t *testing.T) {
	t.Parallel()
	budget, reader := NewBudget(), mapping.NewReader(mapping.Neutral())
	budget.series.most, budget.lines.most = 8*chunk, 8*chunk
	read := func(m *Memory, name string, n int) error {
		_, err := m.Parse(flood(name, n), "", 100_000)
		return err
	}
	shop := budget.Quota()
	var pods []*Memory
	for i := range 6 {
		m := newMemory(reader, shop)
		pods = append(pods, m)
		err := read(m, fmt.Sprint("pod-", i), leastSeries+chunk)
		if fits := i < 4; fits != (err == nil) || !fits && !strings.Contains(err.Error(), "no room for more over all pods") {
			t.Errorf("pod %d: %v", i, err)
		}
	}
	if series, lines := budget.Claimed(); series != 4*chunk || lines > 4*chunk {
		t.Errorf("one Service has %d series and %d lines", series, lines)
	}
	if err := read(pods[5], "due", leastSeries); err != nil {
		t.Errorf("what each pod may have: %v", err)
	}
	if err := read(newMemory(reader, budget.Quota()), "other", leastSeries+4*chunk); err != nil {
		t.Errorf("another Service: %v", err)
	}
	// Series that are no longer exported give their room back, and so do removed targets.
	if err := read(pods[0], "less", 10); err != nil {
		t.Error(err)
	}
	if err := read(pods[4], "now", leastSeries+chunk); err != nil {
		t.Errorf("there is room again: %v", err)
	}
	for _, m := range pods {
		m.release()
	}
	if series, _ := budget.Claimed(); series != 4*chunk {
		t.Errorf("%d series are claimed by one Service that is left", series)
	}
}

// 128 hostile pods are read at once. The memory is bounded, and small pods are still read.
func TestHostilePods(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	var text strings.Builder
	series := 0
	for ; text.Len() < 3500<<10; series++ {
		fmt.Fprintf(&text, "stateful_shard_requests_total{shard=\"%d\",outcome=\"ok\",filler=\"%s\"} 1\n", series,
			strings.Repeat("x", 300))
	}
	body := text.String()
	hostile := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) })                     //nolint:errcheck,gosec // seen by the reading
	honest := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "stateful_requests_total 1\n") }) //nolint:errcheck // likewise
	s := newStage()
	for service := range 4 {
		key := name(fmt.Sprint("hostile-", service))
		s.leads[key] = true
		for pod := range 32 {
			at := hostile
			at.Pod = types.UID(fmt.Sprint(service, "-", pod))
			s.services[key] = append(s.services[key], at)
		}
	}
	s.services[name("honest")], s.leads[name("honest")] = []Target{honest}, true
	var peak atomic.Uint64
	stop, stopped := make(chan struct{}), make(chan struct{})
	// What was alive at the last collection: on a busy machine garbage may wait for any time.
	live := func() uint64 {
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	runtime.GC()
	before := live()
	go func() {
		defer close(stopped)
		for {
			peak.Store(max(peak.Load(), live()))
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	run(t, s, 5*time.Second)
	s.until(t, "all are read, or refused", func() bool {
		for service := range 4 {
			if len(s.readings[name(fmt.Sprint("hostile-", service))]) == 0 {
				return false
			}
		}
		return len(s.readings[name("honest")]) > 0
	})
	close(stop)
	<-stopped
	read, kept := 0, 0
	s.set(func() {
		for service := range 4 {
			batches := s.readings[name(fmt.Sprint("hostile-", service))]
			for _, r := range batches[len(batches)-1] {
				if r.Err == nil {
					kept += series
				}
			}
		}
		for _, batch := range s.readings[name("honest")] {
			for _, r := range batch {
				if r.Err != nil {
					t.Errorf("the honest pod is not read: %v", r.Err)
				}
				read++
			}
		}
	})
	if kept > 300_000 {
		t.Errorf("%d series are kept of all pods", kept)
	}
	// All answers together would take 500 and more.
	if grown := (max(peak.Load(), before) - before) >> 20; read == 0 || grown > 400 {
		t.Errorf("the heap grew by %d MiB at most", grown)
	} else {
		t.Logf("the heap grew by %d MiB at most, for %d series", grown, kept)
	}
}

// A series that appears twice counts once, however it is written.
func TestDuplicates(t *testing.T) {
	t.Parallel()
	const text = "stateful_requests_total{entity_type=\"Cart\",outcome=\"ok\"} 7\n" +
		"stateful_requests_total{entity_type=\"Cart\",outcome=\"ok\"} 7\n" +
		"stateful_requests_total{outcome=\"ok\", entity_type=\"Cart\"} 9\n" +
		"stateful_requests_total{entity_type=\"Cart\",outcome=\"ok\",cluster=\"b\"} 1\n"
	m := NewMemory(mapping.NewReader(mapping.Neutral()))
	for range 3 {
		e, err := m.Parse([]byte(text), "", 100)
		if err != nil {
			t.Fatal(err)
		}
		want := map[mapping.Key]float64{{Figure: mapping.Finished, Entity: "Cart", Outcome: mapping.OK}: 8}
		if diff := cmp.Diff(want, e.Sources[0].Values); diff != "" || e.Duplicates != 2 {
			t.Errorf("%d duplicates, %s", e.Duplicates, diff)
		}
	}
}

// A few hints report the application's unknown outcomes.
func TestHints(t *testing.T) {
	t.Parallel()
	m := NewMemory(mapping.NewReader(mapping.Neutral()))
	for range 2 {
		e, err := m.Parse([]byte("stateful_requests_total{outcome=\"success\"} 1\nstateful_requests_total{outcome=\"a\"} 1\n"+
			"stateful_requests_total{outcome=\"b\"} 1\nstateful_requests_total{outcome=\"c\"} 1\nstateful_requests_total{outcome=\"ok\"} 1\n"), "", 100)
		if err != nil || len(e.Hints) != mostHints || !strings.Contains(e.Hints[0], `outcome="success"`) {
			t.Errorf("%v, %v", e.Hints, err)
		}
	}
}
