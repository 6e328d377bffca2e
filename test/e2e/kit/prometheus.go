package kit

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
)

// Series is one series in Prometheus' response to an instant query.
type Series struct {
	Metric map[string]string `json:"metric"`
	// Value is a timestamp and a quoted number.
	Value [2]any `json:"value"`
}

// Query sends an instant query to the Prometheus of the cluster made by test/cluster.
func (k *Kit) Query(ctx context.Context, expr string) ([]Series, error) {
	server, err := url.Parse(k.Config.Host)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the cluster: %w", err)
	}
	at := url.URL{Scheme: "http", Host: net.JoinHostPort(server.Hostname(), "9090"), Path: "/api/v1/query", RawQuery: url.Values{"query": {expr}}.Encode()}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("querying Prometheus: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("querying Prometheus: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // the body has been read, or is not needed
	var said struct {
		Status, Error string
		Data          struct{ Result []Series }
	}
	if err := json.NewDecoder(response.Body).Decode(&said); err != nil {
		return nil, fmt.Errorf("reading Prometheus' response to %s: %w", expr, err)
	}
	if said.Status != "success" {
		return nil, fmt.Errorf("prometheus rejected %s: %s", expr, said.Error)
	}
	return said.Data.Result, nil
}
