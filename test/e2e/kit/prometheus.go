// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
)

// Series is one series in Prometheus' response to an instant query.
type Series struct {
	Metric map[string]string `json:"metric"`
	// Value is a timestamp and a quoted number.
	Value [2]any `json:"value"`
}

// Query sends an instant query to the Prometheus of the cluster made by test/cluster.
func (k Prometheus) Query(ctx context.Context, expr string) ([]Series, error) {
	var said struct{ Result []Series }
	if err := k.post(ctx, "/api/v1/query?"+url.Values{"query": {expr}}.Encode(), &said); err != nil {
		return nil, fmt.Errorf("querying %s: %w", expr, err)
	}
	return said.Result, nil
}

// Alert is an alert that is pending or firing.
type Alert struct {
	// Labels include the alert's name, as "alertname".
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	// State is "pending" or "firing".
	State string `json:"state"`
}

// Alerts returns the alerts of the cluster's Prometheus.
func (k Prometheus) Alerts(ctx context.Context) ([]Alert, error) {
	var said struct{ Alerts []Alert }
	if err := k.post(ctx, "/api/v1/alerts", &said); err != nil {
		return nil, fmt.Errorf("asking for alerts: %w", err)
	}
	return said.Alerts, nil
}

// LoadRules lets the cluster's Prometheus evaluate rules, until the returned function is called.
func (k Prometheus) LoadRules(ctx context.Context, rules string) (unload func(context.Context) error, err error) {
	dir, err := k.Address(ctx, "prometheus-rules")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "e2e.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		return nil, fmt.Errorf("writing rules for Prometheus: %w", err)
	}
	return func(ctx context.Context) error {
		if err := os.Remove(file); err != nil {
			return fmt.Errorf("removing the rules of Prometheus: %w", err)
		}
		return k.reload(ctx)
	}, k.reload(ctx)
}

// reload lets Prometheus read its configuration and rules again. It answers when it has.
func (k Prometheus) reload(ctx context.Context) error {
	_, err := k.ask(ctx, http.MethodPost, "/-/reload")
	return err
}

// post reads the data of a response of Prometheus' API.
func (k Prometheus) post(ctx context.Context, path string, data any) error {
	body, err := k.ask(ctx, http.MethodGet, path)
	if err != nil {
		return err
	}
	var said struct{ Data json.RawMessage }
	if err := json.Unmarshal(body, &said); err != nil {
		return fmt.Errorf("reading Prometheus' response: %w", err)
	}
	if err := json.Unmarshal(said.Data, data); err != nil {
		return fmt.Errorf("reading Prometheus' data: %w", err)
	}
	return nil
}

// URL is the address of the cluster's Prometheus, for the machine and for pods.
func (k Prometheus) URL() (string, error) {
	server, err := url.Parse(k.Config.Host)
	if err != nil {
		return "", fmt.Errorf("reading the address of the cluster: %w", err)
	}
	return "http://" + net.JoinHostPort(server.Hostname(), "9090"), nil
}

func (k Prometheus) ask(ctx context.Context, method, path string) ([]byte, error) {
	at, err := k.URL()
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, at+path, nil)
	if err != nil {
		return nil, fmt.Errorf("asking Prometheus: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking Prometheus: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // the body has been read
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("reading Prometheus' response: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("prometheus answered %s: %.500s", response.Status, body)
	}
	return body, nil
}
