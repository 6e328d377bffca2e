// SPDX-License-Identifier: Apache-2.0

package dashboards

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// scrapeInterval is short to keep the test short.
const scrapeInterval = 500 * time.Millisecond

// server is a real Prometheus that scrapes two replicas.
type server struct{ url string }

// startPrometheus skips the test if Debian's package is missing.
func startPrometheus(t *testing.T, replicas map[string]http.Handler) server {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("Prometheus is not installed: apt-get install prometheus")
	}
	pages := http.NewServeMux()
	config := fmt.Sprintf("global: {scrape_interval: %v, scrape_timeout: %[1]v}\nscrape_configs:\n- job_name: knative-cdevents/controller\n  static_configs:\n", scrapeInterval)
	web := httptest.NewServer(pages)
	t.Cleanup(web.Close)
	for pod, handler := range replicas {
		pages.Handle("/"+pod, handler)
		// The labels that the operator's PodMonitor adds.
		config += fmt.Sprintf("  - targets: [%q]\n    labels: {__metrics_path__: /%s, namespace: knative-cdevents, container: controller, pod: %[2]s, instance: %[2]s, endpoint: metrics}\n",
			strings.TrimPrefix(web.URL, "http://"), pod)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	ctx, stop := context.WithCancel(context.Background())
	var stderr strings.Builder
	cmd := exec.CommandContext(ctx, program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--log.level=warn")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait() // it was asked to stop
		if t.Failed() {
			t.Logf("Prometheus stderr: %s", stderr.String())
		}
	})
	s := server{"http://" + address}
	eventually(t, "Prometheus is ready", func() bool {
		r, err := http.Get(s.url + "/-/ready") //nolint:noctx // bounded by the test
		if err != nil {
			return false
		}
		defer func() { _ = r.Body.Close() }() // it was not read
		return r.StatusCode == http.StatusOK
	})
	return s
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed at once
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // Prometheus takes the port
	return l.Addr().String()
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// result is one series, with one value or many.
type result struct {
	Metric map[string]string `json:"metric"`
	Value  sample            `json:"value"`
	Values []sample          `json:"values"`
}

// sample is a value; its time is ignored.
type sample float64

func (s *sample) UnmarshalJSON(b []byte) error {
	var pair [2]any
	if err := json.Unmarshal(b, &pair); err != nil {
		return fmt.Errorf("reading a sample: %w", err)
	}
	v, err := strconv.ParseFloat(fmt.Sprint(pair[1]), 64)
	*s = sample(v)
	return err
}

func (s server) get(t *testing.T, path string, query url.Values) []result {
	t.Helper()
	r, err := http.Get(s.url + path + "?" + query.Encode()) //nolint:noctx // bounded by the test
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }() // what was read is judged
	var answer struct {
		Error string
		Data  struct{ Result []result }
	}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil || answer.Error != "" {
		t.Fatalf("%v %s: %s", query, answer.Error, fmt.Sprint(err))
	}
	return answer.Data.Result
}

// at queries as a table does, between as a panel with a time axis does.
func (s server) at(t *testing.T, expr string, now time.Time) []result {
	t.Helper()
	return s.get(t, "/api/v1/query", url.Values{"query": {expr}, "time": {stamp(now)}})
}

func (s server) between(t *testing.T, expr string, from, to time.Time) []result {
	t.Helper()
	return s.get(t, "/api/v1/query_range", url.Values{"query": {expr}, "start": {stamp(from)}, "end": {stamp(to)}, "step": {"0.5"}})
}

// scrapes is how many scrapes of a pod Prometheus has stored. What it has requested says less: it may still be reading, or
// give up.
func (s server) scrapes(t *testing.T, pod string) int {
	t.Helper()
	stored := s.at(t, `sum_over_time(up{pod="`+pod+`"}[1h])`, time.Now())
	if len(stored) == 0 {
		return 0
	}
	return int(stored[0].Value)
}

func stamp(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }

// name is the label that Grafana shows for a series.
func (b Bound) name(r result) string {
	if b.Column != "" {
		return b.Column + " of " + r.Metric["kn_revision_name"] + r.Metric["environment"]
	}
	if b.Legend == "" {
		return strings.TrimPrefix(fmt.Sprint(r.Metric), "map")
	}
	return regexp.MustCompile(`\{\{(\w+)\}\}`).ReplaceAllStringFunc(b.Legend, func(l string) string { return r.Metric[strings.Trim(l, "{}")] })
}

// near reports whether two values are equal within a tolerance.
func near(got, want, part float64) bool { return math.Abs(got-want) <= part*math.Abs(want)+1e-9 }
