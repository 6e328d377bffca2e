package stateful

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
)

// Bounds of what is asked for and taken. A pod may answer whatever it likes.
const (
	askTimeout  = 3 * time.Second
	maxAnswer   = 4 << 20
	maxInFlight = 16
)

// Management reads the HTTP API of Akka Management and Pekko Management. It knows
// GET and nothing else: the routes that join, leave or down a member are never
// used, whether a cluster has them or not.
type Management struct {
	client *http.Client
	// slots bounds how many requests are under way, over all clusters.
	slots chan struct{}
}

// NewManagement returns a client.
func NewManagement() *Management {
	return &Management{
		slots: make(chan struct{}, maxInFlight),
		client: &http.Client{
			// A pod must not send us on to somebody who trusts us.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				Proxy:                  nil, // to the pod and to nobody else
				DialContext:            (&net.Dialer{Timeout: time.Second}).DialContext,
				DisableCompression:     true,
				MaxIdleConnsPerHost:    1,
				IdleConnTimeout:        time.Minute,
				MaxResponseHeaderBytes: 64 << 10,
			},
		},
	}
}

// errNoRoute is what a 404 says: there is no such thing there.
var errNoRoute = errors.New("the route does not exist (404)")

// Members is the answer of /cluster/members: who one node knows.
type Members struct {
	// SelfNode is the address of the node that answers, as in
	// "pekko://shop@10.0.0.7:25520".
	SelfNode    string        `json:"selfNode"`
	Members     []Member      `json:"members"`
	Unreachable []Unreachable `json:"unreachable"`
	// Leader and Oldest are empty before a cluster is formed.
	Leader string `json:"leader"`
	Oldest string `json:"oldest"`
}

// Member is one of them.
type Member struct {
	Node string `json:"node"`
	// NodeUID is a number of 64 bits. Most answers have it as a string.
	NodeUID json.Number `json:"nodeUid"`
	// Status is Joining, WeaklyUp, Up, Leaving, Exiting, Down or Removed.
	Status string   `json:"status"`
	Roles  []string `json:"roles"`
}

// Up says that the member takes part.
func (m Member) Up() bool { return m.Status == "Up" || m.Status == "WeaklyUp" }

// Unreachable is a member that others do not reach.
type Unreachable struct {
	Node       string   `json:"node"`
	ObservedBy []string `json:"observedBy"`
}

// Members asks a node which members it knows.
func (m *Management) Members(ctx context.Context, at netip.AddrPort) (Members, error) {
	var out Members
	err := m.get(ctx, at, "/cluster/members", &out)
	return out, err
}

// Shards asks a node which shards of an entity type it holds itself. A type that
// was not started there has none. An empty answer is nil: a region that is busy
// leaves its shards out, so that nothing follows from it.
func (m *Management) Shards(ctx context.Context, at netip.AddrPort, entityType string) ([]string, error) {
	var answer struct {
		Regions []struct {
			ShardID string `json:"shardId"`
		} `json:"regions"`
		// Failed is there from Akka Management 1.6.5 on.
		Failed []any `json:"failed"`
	}
	err := m.get(ctx, at, "/cluster/shards/"+url.PathEscape(entityType), &answer)
	if errors.Is(err, errNoRoute) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(answer.Failed) > 0 {
		return nil, fmt.Errorf("%d shards of %s did not answer", len(answer.Failed), entityType)
	}
	var out []string
	for _, r := range answer.Regions {
		out = append(out, r.ShardID)
	}
	return out, nil
}

// get reads one JSON document. Everything but 200 is an error: a node that runs
// into a time-out answers 500.
func (m *Management) get(ctx context.Context, at netip.AddrPort, path string, into any) error {
	select {
	case m.slots <- struct{}{}:
		defer func() { <-m.slots }()
	case <-ctx.Done():
		return fmt.Errorf("waiting to ask %s: %w", at, ctx.Err())
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	resp, err := m.do(ctx, at, path, "application/json")
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it was read, or is given up
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return fmt.Errorf("GET %s at %s: reading the answer: %w", path, at, err)
	}
	if len(body) > maxAnswer {
		return fmt.Errorf("GET %s at %s: the answer is larger than %d bytes", path, at, maxAnswer)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("GET %s at %s: the answer is not valid: %w", path, at, err)
	}
	return nil
}

func (m *Management) do(ctx context.Context, at netip.AddrPort, path, accept string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at.String()+path, nil)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", at, err)
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("User-Agent", "knative-cdevents")
	resp, err := m.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", at, plain(err))
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return resp, nil
	case http.StatusNotFound:
		err = errNoRoute
	default:
		err = fmt.Errorf("the answer is %s", resp.Status)
	}
	_ = resp.Body.Close() // nothing of it is used
	return nil, fmt.Errorf("GET %s at %s: %w", path, at, err)
}

// plain takes the method and the URL out of an error, which say it twice.
func plain(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}
