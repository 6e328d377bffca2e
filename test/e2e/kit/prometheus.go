package kit

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
)

// Series is what Prometheus answers about one series of an instant query.
type Series struct {
	Metric map[string]string `json:"metric"`
	// Value is a time and a number in quotes.
	Value [2]any `json:"value"`
}

// Query asks the Prometheus of the cluster made by test/cluster, at this moment.
func (k *Kit) Query(ctx context.Context, expr string) ([]Series, error) {
	server, err := url.Parse(k.Config.Host)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the cluster: %w", err)
	}
	at := url.URL{Scheme: "http", Host: net.JoinHostPort(server.Hostname(), "9090"), Path: "/api/v1/query", RawQuery: url.Values{"query": {expr}}.Encode()}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("asking Prometheus: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking Prometheus: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // it was read, or not needed
	var said struct {
		Status, Error string
		Data          struct{ Result []Series }
	}
	if err := json.NewDecoder(response.Body).Decode(&said); err != nil {
		return nil, fmt.Errorf("reading what Prometheus says to %s: %w", expr, err)
	}
	if said.Status != "success" {
		return nil, fmt.Errorf("prometheus refuses %s: %s", expr, said.Error)
	}
	return said.Data.Result, nil
}
