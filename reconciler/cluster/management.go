// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/plural"
	"github.com/knative-cdevents/knative-cdevents/canary/cluster"
)

// Limits on requests and answers. A pod is not trusted.
const (
	requestTimeout = 3 * time.Second
	maxAnswer      = 4 << 20
	maxInFlight    = 16
)

// Management reads the HTTP API of Akka Management and Pekko Management, which other
// runtimes may serve too. It only sends GET requests, so it can never join, leave or down a member.
type Management struct {
	client *http.Client
	// slots limits concurrent requests across all clusters.
	slots chan struct{}
}

// NewManagement returns a client.
func NewManagement() *Management {
	return &Management{
		slots: make(chan struct{}, maxInFlight),
		client: &http.Client{
			// A pod must not redirect us to a server that trusts us.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				Proxy:                  nil, // connect to the pod directly
				DialContext:            (&net.Dialer{Timeout: time.Second}).DialContext,
				DisableCompression:     true,
				MaxIdleConnsPerHost:    1,
				IdleConnTimeout:        time.Minute,
				MaxResponseHeaderBytes: 64 << 10,
			},
		},
	}
}

// Members returns the members that a node knows.
func (m *Management) Members(ctx context.Context, at netip.AddrPort) (cluster.Members, error) {
	var out cluster.Members
	err := m.get(ctx, at, "/cluster/members", &out)
	return out, err
}

// Shards returns the shards of an entity type that a node holds. A node that has not
// started the type returns none. Nil proves nothing: a busy region omits its shards.
func (m *Management) Shards(ctx context.Context, at netip.AddrPort, entityType string) ([]string, error) {
	var answer struct {
		Regions []struct {
			ShardID string `json:"shardId"`
		} `json:"regions"`
		// Failed exists since Akka Management 1.6.5.
		Failed []any `json:"failed"`
	}
	err := m.get(ctx, at, "/cluster/shards/"+url.PathEscape(entityType), &answer)
	if errors.Is(err, cluster.ErrNoRoute) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(answer.Failed) > 0 {
		return nil, fmt.Errorf("%s of %s did not answer", plural.Of(len(answer.Failed), "shard", "shards"), entityType)
	}
	var out []string
	for _, r := range answer.Regions {
		out = append(out, r.ShardID)
	}
	return out, nil
}

// get reads one JSON document. Every status except 200 is an error: a node answers 500
// when it times out.
func (m *Management) get(ctx context.Context, at netip.AddrPort, path string, into any) error {
	select {
	case m.slots <- struct{}{}:
		defer func() { <-m.slots }()
	case <-ctx.Done():
		return fmt.Errorf("waiting to send a request to %s: %w", at, ctx.Err())
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	resp, err := m.do(ctx, at, path, "application/json")
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // a read error is already returned
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return fmt.Errorf("GET %s from %s: reading the response: %w", path, at, err)
	}
	if len(body) > maxAnswer {
		return fmt.Errorf("GET %s from %s: the response is larger than %d bytes", path, at, maxAnswer)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("GET %s from %s: the response is not valid: %w", path, at, err)
	}
	return nil
}

func (m *Management) do(ctx context.Context, at netip.AddrPort, path, accept string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at.String()+path, nil)
	if err != nil {
		return nil, fmt.Errorf("making a request to %s: %w", at, err)
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("User-Agent", "knative-cdevents")
	resp, err := m.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("GET %s from %s: %w", path, at, plain(err))
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return resp, nil
	case http.StatusNotFound:
		err = cluster.ErrNoRoute
	default:
		err = fmt.Errorf("the response status is %s", resp.Status)
	}
	_ = resp.Body.Close() // the body is not used
	return nil, fmt.Errorf("GET %s from %s: %w", path, at, err)
}

// plain removes the method and the URL from an error, because the caller adds them.
func plain(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}
