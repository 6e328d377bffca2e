// SPDX-License-Identifier: Apache-2.0

package promquery

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	// mostAnswer limits an answer, in bytes: one number has less.
	mostAnswer = 64 << 10
	// patience is how long one query may take.
	patience = 5 * time.Second
)

// Prometheus is the operator's server, and connections to it that several queries share.
type Prometheus struct {
	at     *url.URL
	client *http.Client
	token  string
}

// Connect prepares queries to the server at an address, to which "/api/v1/query" is appended. The folder access may
// contain a bearer token, in file token, and the certificates of authorities to trust, in file ca.crt. They can be
// rotated: each call reads them. The caller must call Close.
func Connect(at *url.URL, access string) (*Prometheus, error) {
	token, err := file(access, "token")
	if err != nil {
		return nil, err
	}
	if token != "" && at.Scheme != "https" {
		return nil, fmt.Errorf("there is a token for the Prometheus at %s, and a token is sent over https only",
			at.Redacted())
	}
	certificates, err := file(access, "ca.crt")
	if err != nil {
		return nil, err
	}
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if certificates != "" {
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM([]byte(certificates)) {
			return nil, errors.New("ca.crt for Prometheus contains no certificate")
		}
	}
	return &Prometheus{at: at, token: strings.TrimSpace(token), client: &http.Client{
		Transport:     &http.Transport{TLSClientConfig: trust, Proxy: http.ProxyFromEnvironment},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Close closes the connections.
func (p *Prometheus) Close() { p.client.CloseIdleConnections() }

// file returns the content of a file of a folder; "" if there is none.
func file(folder, name string) (string, error) {
	if folder == "" {
		return "", nil
	}
	content, err := os.ReadFile(filepath.Join(folder, name)) //nolint:gosec // a name of ours in the operator's folder
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading %s for Prometheus: %w", name, err)
	}
	return string(content), nil
}

// UnusableError says that there was an answer, and why it is not a count.
type UnusableError struct{ Why string }

func (e *UnusableError) Error() string { return e.Why }

// Count evaluates an expression at a time. It must return exactly one number, which is not negative. Other answers are
// an UnusableError.
func (p *Prometheus) Count(ctx context.Context, expr string, at time.Time) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	question := url.Values{
		"query": {expr}, "time": {strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64)},
		"timeout": {patience.String()},
		// Thanos and VictoriaMetrics are to fail rather than to leave something out. Others ignore this.
		"partial_response":      {"false"},
		"deny_partial_response": {"1"},
	}
	target := p.at.JoinPath("api", "v1", "query")
	target.RawQuery = question.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return 0, fmt.Errorf("asking Prometheus: %w", err)
	}
	if p.token != "" {
		req.Header.Set("Authorization", "Bearer "+p.token)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		// The error would quote the whole query.
		var quoted *url.Error
		if errors.As(err, &quoted) {
			err = quoted.Err
		}
		return 0, fmt.Errorf("asking Prometheus at %s: %w", p.at.Redacted(), err)
	}
	defer func() { _ = resp.Body.Close() }() // the body has been read
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	if err != nil {
		return 0, fmt.Errorf("reading the answer of Prometheus at %s: %w", p.at.Redacted(), err)
	}
	return p.read(resp.StatusCode, body)
}

// answer is Prometheus' own. Its infos are not read: they are about the query, and say nothing of what is missing.
type answer struct {
	Status string `json:"status"`
	Error  string `json:"error"`
	// Warnings is how Prometheus, Thanos, Mimir and Cortex say that an answer may be incomplete, and IsPartial how
	// VictoriaMetrics does.
	Warnings  []string `json:"warnings"`
	IsPartial bool     `json:"isPartial"`
	Data      struct {
		ResultType string          `json:"resultType"`
		Result     json.RawMessage `json:"result"`
	} `json:"data"`
}

// read returns the one number of an answer.
func (p *Prometheus) read(status int, body []byte) (float64, error) {
	var a answer
	err := json.Unmarshal(body, &a)
	switch {
	case status != http.StatusOK || err == nil && a.Status != "success":
		return 0, fmt.Errorf("the Prometheus at %s answered %d %.200s", p.at.Redacted(), status, a.Error)
	case err != nil:
		return 0, fmt.Errorf("the answer of the Prometheus at %s is not one, or is too long: %w", p.at.Redacted(), err)
	case len(a.Warnings) > 0:
		return 0, fmt.Errorf("the Prometheus at %s warns that the answer may be incomplete: %.200s", p.at.Redacted(),
			strings.Join(a.Warnings, "; "))
	case a.IsPartial:
		return 0, fmt.Errorf(
			"the Prometheus at %s says that the answer is incomplete (isPartial): some of its storage nodes did not answer",
			p.at.Redacted(),
		)
	}
	var pair [2]any
	switch a.Data.ResultType {
	case "scalar":
		err = json.Unmarshal(a.Data.Result, &pair)
	case "vector":
		var series []struct {
			Value [2]any `json:"value"`
		}
		if err = json.Unmarshal(a.Data.Result, &series); err == nil {
			if n := len(series); n != 1 {
				return 0, &UnusableError{fmt.Sprintf("it returned %d series instead of one", n)}
			}
			pair = series[0].Value
		}
	default:
		return 0, &UnusableError{fmt.Sprintf("it returned a %.20s instead of one number", a.Data.ResultType)}
	}
	text, ok := pair[1].(string)
	if err != nil || !ok {
		return 0, &UnusableError{"it returned something else than numbers"}
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) || n < 0 {
		return 0, &UnusableError{fmt.Sprintf("it returned %.20s, which is not a count", text)}
	}
	return n, nil
}
