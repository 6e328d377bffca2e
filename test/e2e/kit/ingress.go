// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"
)

// Ingress sends requests to public Knative Services.
type Ingress struct {
	// base is the address of the ingress; nil where the Services' names resolve.
	base   *url.URL
	client *http.Client
}

// Ingress finds the ingress: DEMO_INGRESS (for example http://203.0.113.7), else that of the cluster made by
// test/cluster, else the Services' own names.
func (k Services) Ingress(ctx context.Context) (*Ingress, error) {
	in := &Ingress{client: &http.Client{
		Timeout: 10 * time.Second,
		// One connection per request, so that the ingress chooses a Revision each time.
		Transport: &http.Transport{DisableKeepAlives: true},
	}}
	address := os.Getenv("DEMO_INGRESS")
	if address == "" && k.Own() {
		var err error
		if address, err = k.Address(ctx, "ingress"); err != nil {
			return nil, err
		}
	}
	if address == "" {
		return in, nil
	}
	base, err := url.Parse(address)
	if err != nil || base.Host == "" {
		return nil, fmt.Errorf("the ingress' address %q must look like http://HOST:PORT", address)
	}
	in.base = base
	return in, nil
}

// Address returns where to connect to for the Service with that URL, as host:port.
func (in *Ingress) Address(service *url.URL) string {
	if in.base != nil {
		service = in.base
	}
	return net.JoinHostPort(service.Hostname(), cmp.Or(service.Port(), "80"))
}

// Answer is the sample application's response.
type Answer struct {
	Status   int    `json:"-"`
	Revision string `json:"revision"`
	Version  string `json:"version"`
}

// Get sends one request to the Service with that URL.
func (in *Ingress) Get(ctx context.Context, service *url.URL) (Answer, error) {
	status, body, err := in.Ask(ctx, service, "")
	if err != nil {
		return Answer{Status: status}, err
	}
	a := Answer{Status: status}
	if err := json.Unmarshal(body, &a); err != nil {
		return a, fmt.Errorf("%s answered %d, and not with an answer of the application: %w", service, a.Status, err)
	}
	return a, nil
}

// Ask sends one request, with an id if there is one, and returns the status and body of the response.
func (in *Ingress) Ask(ctx context.Context, service *url.URL, id string) (int, []byte, error) {
	target := *service
	if in.base != nil {
		target.Scheme, target.Host = in.base.Scheme, in.base.Host
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return 0, nil, fmt.Errorf("creating a request for %s: %w", service, err)
	}
	req.Host = service.Host
	if id != "" {
		req.Header.Set("X-Request-Id", id)
	}
	resp, err := in.client.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("requesting %s: %w", service, err)
	}
	defer func() { _ = resp.Body.Close() }() // the body has been read
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return resp.StatusCode, nil, fmt.Errorf("reading the response of %s: %w", service, err)
	}
	return resp.StatusCode, body, nil
}
