// SPDX-License-Identifier: Apache-2.0

// Package kube reads from the cluster's API server and from etcd.
//
// Invariant: it writes no objects, and every connection is verified against the cluster's own authority. Writing
// is left to kubectl, whose behaviour users know.
package kube

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/pki"
)

// Client is a client of one HTTPS server, with a client certificate.
type Client struct {
	base string
	http *http.Client
}

// New returns a client for the server at base.
func New(base, caFile string, pair pki.Pair) (*Client, error) {
	ca, err := os.ReadFile(caFile) //nolint:gosec // a path in the cluster's own folder
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s contains no certificate", caFile)
	}
	cert, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, fmt.Errorf("reading a client certificate: %w", err)
	}
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true, // a kept connection would hide a restart of the server
	}
	return &Client{base: base, http: &http.Client{Transport: transport, Timeout: 10 * time.Second}}, nil
}

// Text gets a path; any status but 200 is an error.
func (c *Client) Text(ctx context.Context, path string) (string, error) {
	return c.do(ctx, http.MethodGet, path, nil)
}

// Post posts to a path; any status but 200 is an error. etcd's gateway returns no others.
func (c *Client) Post(ctx context.Context, path string, body io.Reader) (string, error) {
	return c.do(ctx, http.MethodPost, path, body)
}

func (c *Client) do(ctx context.Context, method, path string, content io.Reader) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, content)
	if err != nil {
		return "", fmt.Errorf("requesting %s: %w", path, err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or abandoned
	body, err := io.ReadAll(io.LimitReader(resp.Body, 32<<20))
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s returned %s: %s", path, resp.Status, firstLine(string(body)))
	}
	return string(body), nil
}

// Object gets a path and decodes its JSON.
func (c *Client) Object(ctx context.Context, path string, into any) error {
	text, err := c.Text(ctx, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("decoding %s: %w", path, err)
	}
	return nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if len(line) > 300 {
		line = line[:300] + "…"
	}
	return line
}
