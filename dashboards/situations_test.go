// SPDX-License-Identifier: Apache-2.0

package dashboards

import (
	"bufio"
	"flag"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
)

var update = flag.Bool("update", false, "write testdata/situations.txt")

// Every panel and every alert is evaluated by a real Prometheus in these situations, over a quarter of an hour. None may
// fail, such as by a match of many to many, be NaN, or show something twice. What has no value is in
// testdata/situations.txt.
var situations = []situation{
	{"no traffic", func(s exportedSample) []point { return lasting(s.still()) }},
	{"one Service", func(s exportedSample) []point { return lasting(s.growing()) }},
	{"500 Services", nil},
	{"a failed release", func(s exportedSample) []point { return lasting(s.failing()) }},
	{"a restarted controller", restarted},
}

type situation struct {
	name   string
	points func(exportedSample) []point
}

// steps are 15 s apart, as scrapes are. The middle one is when something happens.
const (
	steps  = 60
	middle = 30
	apart  = 15 * time.Second
)

// exportedSample is a series that a controller exports, with its value.
type exportedSample struct {
	name    string
	labels  map[string]string
	value   float64
	counter bool
}

// point is a value at a step, by the replica that exports it.
type point struct {
	pod   string
	step  int
	value float64
}

func lasting(value func(int) (float64, bool)) (out []point) {
	for i := range steps {
		if v, has := value(i); has {
			out = append(out, point{"a", i, v})
		}
	}
	return out
}

// still: the controller runs, and nothing happens. There are no gates.
func (s exportedSample) still() func(int) (float64, bool) {
	return func(int) (float64, bool) { return s.value, !strings.HasPrefix(s.name, "gate_") }
}

// growing: there are requests, and the first deployment is at the middle.
func (s exportedSample) growing() func(int) (float64, bool) {
	return func(i int) (float64, bool) {
		switch {
		case strings.HasPrefix(s.name, "dora_"):
			return s.value, i >= middle
		case s.counter:
			return s.value * float64(i) / steps, true
		}
		return s.value, true
	}
}

// failing: a gate runs until the middle, and fails the canary, which gets no more traffic.
func (s exportedSample) failing() func(int) (float64, bool) {
	grown := s.growing()
	return func(i int) (float64, bool) {
		v, has := grown(i)
		switch {
		case s.name == "gate_verdict" && s.labels["verdict"] == "Running":
			v = b(i < middle)
		case s.name == "gate_verdict" && s.labels["verdict"] == "Fail":
			v = b(i >= middle)
		case s.name == "gate_runs_total" && s.labels["verdict"] == "Fail":
			v = b(i >= middle)
		case s.name == "gate_run_reasons_total":
			has = i >= middle
		case s.name == "canary_traffic_share_ratio" && i >= middle:
			v = b(s.labels["kn_revision_name"] == "cart-1")
		}
		return v, has
	}
}

func b(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// restarted: another replica takes over two scrapes later. What the ledger stores goes on, other counters begin at 0.
func restarted(s exportedSample) (out []point) {
	value := s.growing()
	for i := range steps {
		v, has := value(i)
		if !has {
			v = s.value // what the ledger has stored for long
		}
		switch {
		case i < middle:
			out = append(out, point{"a", i, v})
		case i >= middle+2:
			if s.counter && has && !strings.HasPrefix(s.name, "dora_") {
				v, _ = value(i - middle - 2)
			}
			out = append(out, point{"b", i, v})
		}
	}
	return out
}

// exportedSamples are what a leader exports, without what Go and the process export.
func exportedSamples(t *testing.T) (out []exportedSample) {
	t.Helper()
	r := newReplica(t)
	r.lead(time.Now().Add(-20 * time.Second))
	var families []*dto.MetricFamily
	eventually(t, "the cluster is polled", func() bool {
		var err error
		if families, err = r.registry.Gather(); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == "cdevents_clusters" })
	})
	own := regexp.MustCompile(`^(canary|cdevents|dora|gate|environment)_|^process_start_time_seconds$`)
	for _, f := range families {
		if !own.MatchString(f.GetName()) {
			continue
		}
		for _, m := range f.GetMetric() {
			of := map[string]string{}
			for _, l := range m.GetLabel() {
				of[l.GetName()] = l.GetValue()
			}
			add := func(suffix, le string, value float64, counter bool) {
				s := exportedSample{f.GetName() + suffix, map[string]string{}, value, counter}
				for k, v := range of {
					s.labels[k] = v
				}
				if le != "" {
					s.labels["le"] = le
				}
				out = append(out, s)
			}
			switch h := m.GetHistogram(); {
			case h != nil:
				for _, bucket := range h.GetBucket() {
					add("_bucket", fmt.Sprint(bucket.GetUpperBound()), float64(bucket.GetCumulativeCount()), true)
				}
				add("_bucket", "+Inf", float64(h.GetSampleCount()), true)
				add("_sum", "", h.GetSampleSum(), true)
				add("_count", "", float64(h.GetSampleCount()), true)
			case m.GetCounter() != nil:
				add("", "", m.GetCounter().GetValue(), true)
			default:
				add("", "", m.GetGauge().GetValue()+m.GetUntyped().GetValue(), false)
			}
		}
	}
	return out
}

// write writes the series of a situation for promtool. Of 500 Services, there is what the dashboard of the fleet and
// the alerts look at.
func (s situation) write(t *testing.T, file string, start time.Time, all []exportedSample) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	line := func(of exportedSample, service string, p point) {
		pairs := []string{`job="controller"`, fmt.Sprintf("instance=%q", p.pod), fmt.Sprintf("pod=%q", p.pod)}
		for k, v := range of.labels {
			if k == "kn_service_name" && service != "" {
				v = service
			}
			pairs = append(pairs, fmt.Sprintf("%s=%q", k, v))
		}
		sort.Strings(pairs)
		_, _ = fmt.Fprintf(w, "%s{%s} %v %d\n", of.name, strings.Join(pairs, ","), p.value, start.Add(time.Duration(p.step)*apart).Unix())
	}
	fleet := regexp.MustCompile(`^(canary_(traffic_share_ratio|handled_requests_total|handled_share_ratio|pod_restarts_total|no_data|placement_converged)|dora_(deployments|change_failures)_total|gate_(verdict|canary_info|runs_total|run_reasons_total))$`)
	before := ""
	for _, of := range all {
		if of.name != before { // samples of a family are together
			_, _ = fmt.Fprintf(w, "# TYPE %s unknown\n", of.name)
		}
		before = of.name
		points := s.points
		if points == nil {
			points = situations[1].points
		}
		for _, p := range points(of) {
			line(of, "", p)
			if s.points == nil && of.labels["kn_service_name"] == "cart" && fleet.MatchString(of.name) && p.step%4 == 0 {
				for i := range 499 {
					line(of, fmt.Sprintf("s%03d", i), p)
				}
			}
		}
	}
	_, _ = fmt.Fprintln(w, "# EOF")
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestSituations(t *testing.T) {
	for _, name := range []string{"prometheus", "promtool"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip("Prometheus is not installed: apt-get install prometheus")
		}
	}
	all := exportedSamples(t)
	start := time.Now().Add(-24 * time.Hour).Truncate(time.Hour)
	end := start.Add((steps - 1) * apart)
	v := Values{Namespace: "shop", Service: "cart", Environment: "production", Interval: time.Minute, Step: apart, Shown: 10 * time.Minute}
	// has is, for each query, in which situations it has a value.
	has, order := map[string][]string{}, []string{}
	note := func(key, in string) {
		if _, known := has[key]; !known {
			order = append(order, key)
			has[key] = nil
		}
		if in != "" {
			has[key] = append(has[key], in)
		}
	}
	for _, s := range situations {
		prometheus := s.serve(t, start, all)
		for _, q := range append(Queries(v), alerts(t)...) {
			key := q.Dashboard + " | " + q.Panel + " | " + q.Legend + q.Column
			note(key, "")
			found := prometheus.over(t, q.Expr, start.Add(5*time.Minute), end)
			if q.Column != "" {
				found = prometheus.at(t, q.Expr, end)
			}
			if s.sound(t, key, q, found) {
				note(key, s.name)
			}
		}
		prometheus.stop()
	}
	var text strings.Builder
	text.WriteString("What has no value in which situation; the rest of " + fmt.Sprint(len(order)) + " queries of panels and alerts has one in all.\n")
	for _, key := range order {
		var missing []string
		for _, s := range situations {
			if !slices.Contains(has[key], s.name) {
				missing = append(missing, s.name)
			}
		}
		switch {
		case len(missing) == len(situations):
			_, _ = fmt.Fprintf(&text, "%s: in none\n", key)
		case len(missing) > 0:
			_, _ = fmt.Fprintf(&text, "%s: %s\n", key, strings.Join(missing, ", "))
		}
	}
	const golden = "testdata/situations.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != text.String() {
		t.Errorf("%s differs; if it should, run this with -update:\n%s", golden, text.String())
	}
}

// sound checks what a query has found, and reports whether it is anything.
func (s situation) sound(t *testing.T, key string, q Bound, found []result) bool {
	t.Helper()
	seen := map[string]bool{}
	for _, r := range found {
		name := q.name(r)
		if q.Column != "" || strings.HasPrefix(q.Panel, "alert ") {
			name = fmt.Sprint(r.Metric)
		}
		if seen[name] {
			t.Errorf("%s: %s shows %q twice", s.name, key, name)
		}
		seen[name] = true
		for _, value := range append(r.Values, r.Value) {
			if math.IsNaN(float64(value)) || math.IsInf(float64(value), 0) {
				t.Errorf("%s: %s has %v for %q", s.name, key, value, name)
				break
			}
		}
	}
	if len(found) > 100 && q.Legend != "" && !strings.HasPrefix(q.Panel, "variable ") && !strings.HasPrefix(q.Panel, "annotation ") {
		t.Errorf("%s: %s draws %d series", s.name, key, len(found))
	}
	return len(found) > 0
}

// alerts are the expressions of the alerts, with those of the recording rules that they use.
func alerts(t *testing.T) (out []Bound) {
	t.Helper()
	all := rules(t)
	for _, r := range all {
		if r.Alert == "" {
			continue
		}
		for _, of := range all {
			if of.Record != "" {
				r.Expr = strings.ReplaceAll(r.Expr, of.Record, "("+of.Expr+")")
			}
		}
		out = append(out, Bound{Dashboard: "Alerts", Panel: "alert " + r.Alert, Query: Query{Expr: r.Expr}})
	}
	return out
}

// over is a query of a panel with a time axis.
func (s storedServer) over(t *testing.T, expr string, from, to time.Time) []result {
	t.Helper()
	return s.get(t, "/api/v1/query_range", map[string][]string{"query": {expr}, "start": {stamp(from)}, "end": {stamp(to)}, "step": {"15"}})
}

// storedServer is a Prometheus that has what it serves from the start.
type storedServer struct {
	server
	stop func()
}

func (s situation) serve(t *testing.T, start time.Time, all []exportedSample) storedServer {
	t.Helper()
	dir := t.TempDir()
	file, data := filepath.Join(dir, "series"), filepath.Join(dir, "data")
	s.write(t, file, start, all)
	if out, err := exec.CommandContext(t.Context(), "promtool", "tsdb", "create-blocks-from", "openmetrics", file, data).CombinedOutput(); err != nil {
		t.Fatalf("promtool: %v\n%s", err, out)
	}
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, []byte("global: {scrape_interval: 15s}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	var stderr strings.Builder
	c := exec.CommandContext(t.Context(), "prometheus", "--config.file="+config, "--storage.tsdb.path="+data, "--storage.tsdb.retention.time=100y",
		// There are no marks of series that end. Of 500 Services, most are there once a minute.
		"--web.listen-address="+address, "--log.level=error", "--query.lookback-delta="+map[bool]string{true: "75s", false: "20s"}[s.points == nil])
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay, c.Stderr = 5*time.Second, &stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	stop := func() {
		_ = c.Process.Signal(os.Interrupt) // it may have ended
		_ = c.Wait()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(stderr.String())
		}
	})
	out := storedServer{server{"http://" + address}, stop}
	eventually(t, "Prometheus is ready", func() bool {
		r, err := http.Get(out.url + "/-/ready") //nolint:noctx // bounded by the test
		if err != nil {
			return false
		}
		defer func() { _ = r.Body.Close() }() // it was not read
		return r.StatusCode == http.StatusOK
	})
	return out
}
