// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// scrapeInterval is the default of both programs.
const scrapeInterval = 15 * time.Second

// reader is a program that scrapes pods.
type reader struct {
	// name in the report; agent identifies it to pods.
	name, agent string
	process     *process
	url         string
	// counted returns the handled requests that it has counted; truth returns those in its scrapes.
	counted func(context.Context, *reader) (float64, error)
	truth   func(*pods) float64
}

// prometheusName is Prometheus' name in the report and as a program.
const prometheusName = "Prometheus"

// measuring starts the controller as shipped.
func (s *stage) measuring(ctx context.Context) (*reader, error) {
	config, err := s.kubeconfig(ours.Name)
	if err != nil {
		return nil, err
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	r := &reader{
		name: ours.Name, agent: "knative-cdevents", url: "http://127.0.0.1:" + port + "/metrics", counted: handled,
		// Requests before its first scrape do not count.
		truth: func(p *pods) float64 { since, _ := p.exposed("knative-cdevents"); return since },
	}
	env := append([]string{"KUBECONFIG=" + config, "METRICS_PROMETHEUS_HOST=127.0.0.1", "METRICS_PROMETHEUS_PORT=" + port}, ours.env(s)...)
	r.process, err = program{name: r.name, path: ours.path(s.programs), log: filepath.Join(s.dir, "measuring.log"), env: env}.launch(ctx)
	return r, err
}

// prometheus starts Debian's Prometheus, which scrapes the same ports and does nothing else.
func (s *stage) prometheus(ctx context.Context, p *pods) (*reader, error) {
	path, err := exec.LookPath("prometheus")
	if err != nil {
		return nil, fmt.Errorf("scenario scrape compares with Prometheus (apt-get install prometheus; or leave the scenario out): %w", err)
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(s.dir, "prometheus")
	if err != nil {
		return nil, fmt.Errorf("creating a folder for Prometheus: %w", err)
	}
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, []byte(p.config()), 0o600); err != nil {
		return nil, fmt.Errorf("writing the configuration of Prometheus: %w", err)
	}
	r := &reader{
		name: prometheusName, agent: "Prometheus", url: "http://127.0.0.1:" + port + "/metrics", counted: stored,
		truth: func(p *pods) float64 { _, all := p.exposed("Prometheus"); return all },
	}
	r.process, err = program{name: r.name, path: path, log: filepath.Join(dir, "log")}.launch(ctx, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address=127.0.0.1:"+port, "--log.level=warn")
	return r, err
}

// config is the configuration of Prometheus: a job for each kind of port.
func (p *pods) config() string {
	jobs := map[string][]string{"application": nil, "queue-proxy": nil}
	for address := range p.ports {
		job := "application"
		if strings.HasSuffix(address, fmt.Sprintf(":%d", queueProxyPort)) {
			job = "queue-proxy"
		}
		jobs[job] = append(jobs[job], address)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "global: {scrape_interval: %v, scrape_timeout: 5s}\nscrape_configs:\n", scrapeInterval)
	for job, targets := range jobs {
		slices.Sort(targets)
		fmt.Fprintf(&out, "- job_name: %s\n  static_configs:\n  - targets: ['%s']\n", job, strings.Join(targets, "','"))
	}
	return out.String()
}

// freePort returns a port that is not in use.
func freePort(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err = errors.Join(err, l.Close()); err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	return port, nil
}

func get(ctx context.Context, from string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, fmt.Errorf("requesting %s: %w", from, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("requesting %s: %w", from, err)
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, fmt.Errorf("reading the response of %s: %w", from, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s returned %s, want 200: %s", from, resp.Status, body)
	}
	return body, nil
}

// metrics returns the reader's own metrics; the controller's include those of canaries.
func (r *reader) metrics(ctx context.Context) (map[string]*dto.MetricFamily, error) {
	body, err := get(ctx, r.url)
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(strings.NewReader(string(body)))
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of %s: %w", r.name, err)
	}
	return all, nil
}

// heap is the part of Go's heap that is in use, in bytes.
func heap(all map[string]*dto.MetricFamily) uint64 {
	for _, m := range all["go_memstats_heap_inuse_bytes"].GetMetric() {
		return uint64(m.GetGauge().GetValue())
	}
	return 0
}

// handled returns the handled requests that the controller exports.
func handled(ctx context.Context, r *reader) (float64, error) {
	all, err := r.metrics(ctx)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, m := range all["canary_handled_requests_total"].GetMetric() {
		sum += m.GetCounter().GetValue()
	}
	return sum, nil
}

// stored returns the handled requests in Prometheus, by a query.
func stored(ctx context.Context, r *reader) (float64, error) {
	body, err := get(ctx, strings.TrimSuffix(r.url, "/metrics")+"/api/v1/query?query="+url.QueryEscape("sum(stateful_requests_total)"))
	if err != nil {
		return 0, err
	}
	var answer struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return 0, fmt.Errorf("reading Prometheus' response: %w", err)
	}
	if len(answer.Data.Result) != 1 {
		return 0, nil
	}
	sum, err := strconv.ParseFloat(fmt.Sprint(answer.Data.Result[0].Value[1]), 64)
	if err != nil {
		return 0, fmt.Errorf("reading Prometheus' response: %w", err)
	}
	return sum, nil
}
