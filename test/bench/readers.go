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

// scrapeInterval is that of both, and the default of both.
const scrapeInterval = 15 * time.Second

// reader is a program that reads pods.
type reader struct {
	// name in the report; agent is what it calls itself to pods.
	name, agent string
	process     *process
	url         string
	// counted is how many handled requests it has counted, truth how many it was told of.
	counted func(context.Context, *reader) (float64, error)
	truth   func(*pods) float64
}

// prometheusName is that of the peer, in the report and as a program.
const prometheusName = "Prometheus"

// measuring starts the controller, as it is shipped.
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
		// What pods had counted before nobody saw happen.
		truth: func(p *pods) float64 { since, _ := p.told("knative-cdevents"); return since },
	}
	env := append([]string{"KUBECONFIG=" + config, "METRICS_PROMETHEUS_HOST=127.0.0.1", "METRICS_PROMETHEUS_PORT=" + port}, ours.env(s)...)
	r.process, err = launch(ctx, r.name, ours.path(s.programs), env, filepath.Join(s.dir, "measuring.log"))
	return r, err
}

// prometheus starts Debian's, with nothing to do but to read the same ports.
func (s *stage) prometheus(ctx context.Context, p *pods) (*reader, error) {
	path, err := exec.LookPath("prometheus")
	if err != nil {
		return nil, fmt.Errorf("scenario scrape compares with Prometheus (apt-get install prometheus; without it, leave the scenario out): %w", err)
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(s.dir, "prometheus")
	if err != nil {
		return nil, fmt.Errorf("making a folder for Prometheus: %w", err)
	}
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, []byte(p.config()), 0o600); err != nil {
		return nil, fmt.Errorf("writing the configuration of Prometheus: %w", err)
	}
	r := &reader{
		name: prometheusName, agent: "Prometheus", url: "http://127.0.0.1:" + port + "/metrics", counted: stored,
		truth: func(p *pods) float64 { _, all := p.told("Prometheus"); return all },
	}
	r.process, err = launch(ctx, r.name, path, nil, filepath.Join(dir, "log"), "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address=127.0.0.1:"+port, "--log.level=warn")
	return r, err
}

// config is the one of Prometheus: a job for each kind of port.
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

// freePort is one that nobody listens at.
func freePort(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("looking for a free port: %w", err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err = errors.Join(err, l.Close()); err != nil {
		return "", fmt.Errorf("looking for a free port: %w", err)
	}
	return port, nil
}

func get(ctx context.Context, from string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", from, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", from, err)
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, fmt.Errorf("reading the answer of %s: %w", from, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s, not 200: %s", from, resp.Status, body)
	}
	return body, nil
}

// metrics of the reader about itself; of ours, also those of canaries.
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

// heap is what Go's heap has in use, in bytes.
func heap(all map[string]*dto.MetricFamily) uint64 {
	for _, m := range all["go_memstats_heap_inuse_bytes"].GetMetric() {
		return uint64(m.GetGauge().GetValue())
	}
	return 0
}

// handled is what the controller exports.
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

// stored is what Prometheus answers to a query.
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
		return 0, fmt.Errorf("reading the answer of Prometheus: %w", err)
	}
	if len(answer.Data.Result) != 1 {
		return 0, nil
	}
	sum, err := strconv.ParseFloat(fmt.Sprint(answer.Data.Result[0].Value[1]), 64)
	if err != nil {
		return 0, fmt.Errorf("reading the answer of Prometheus: %w", err)
	}
	return sum, nil
}
