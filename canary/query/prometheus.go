package query

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

// Prometheus is the operator's server.
type Prometheus struct {
	// URL is its address; "/api/v1/query" is appended.
	URL *url.URL
	// Access is a folder that may contain a bearer token, in file token, and the certificates of authorities to trust,
	// in file ca.crt. Both are read at each query, so they can be rotated.
	Access string
}

// UnusableError says that there was an answer, and why it is not a count.
type UnusableError struct{ Why string }

func (e *UnusableError) Error() string { return e.Why }

// Count evaluates an expression at a time. It must return exactly one number, which is not negative. Other answers are
// an UnusableError.
func (p *Prometheus) Count(ctx context.Context, expr string, at time.Time) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, token, err := p.client()
	if err != nil {
		return 0, err
	}
	defer client.CloseIdleConnections()
	question := url.Values{"query": {expr}, "time": {strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64)}, "timeout": {patience.String()}}
	target := p.URL.JoinPath("api", "v1", "query")
	target.RawQuery = question.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return 0, fmt.Errorf("asking Prometheus: %w", err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		// The error would quote the whole query.
		var quoted *url.Error
		if errors.As(err, &quoted) {
			err = quoted.Err
		}
		return 0, fmt.Errorf("asking Prometheus at %s: %w", p.URL.Redacted(), err)
	}
	defer func() { _ = resp.Body.Close() }() // the body has been read
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	if err != nil {
		return 0, fmt.Errorf("reading the answer of Prometheus at %s: %w", p.URL.Redacted(), err)
	}
	return p.read(resp.StatusCode, body)
}

// answer is Prometheus' own.
type answer struct {
	Status   string   `json:"status"`
	Error    string   `json:"error"`
	Warnings []string `json:"warnings"`
	Data     struct {
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
		return 0, fmt.Errorf("the Prometheus at %s answered %d %.200s", p.URL.Redacted(), status, a.Error)
	case err != nil:
		return 0, fmt.Errorf("the answer of the Prometheus at %s is not one, or is too long: %w", p.URL.Redacted(), err)
	case len(a.Warnings) > 0:
		return 0, fmt.Errorf("the Prometheus at %s warns that the answer may be incomplete: %.200s", p.URL.Redacted(), strings.Join(a.Warnings, "; "))
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

// client returns a client that trusts the authorities of the operator, and the token if there is one.
func (p *Prometheus) client() (*http.Client, string, error) {
	token, err := p.file("token")
	if err != nil {
		return nil, "", err
	}
	if token != "" && p.URL.Scheme != "https" {
		return nil, "", fmt.Errorf("there is a token for the Prometheus at %s, and a token is sent over https only", p.URL.Redacted())
	}
	certificates, err := p.file("ca.crt")
	if err != nil {
		return nil, "", err
	}
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if certificates != "" {
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM([]byte(certificates)) {
			return nil, "", errors.New("ca.crt for Prometheus contains no certificate")
		}
	}
	return &http.Client{
		Transport:     &http.Transport{TLSClientConfig: trust, Proxy: http.ProxyFromEnvironment},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, strings.TrimSpace(token), nil
}

// file returns the content of a file of Access; "" if there is none.
func (p *Prometheus) file(name string) (string, error) {
	if p.Access == "" {
		return "", nil
	}
	content, err := os.ReadFile(filepath.Join(p.Access, name)) //nolint:gosec // a name of ours in the operator's folder
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading %s for Prometheus: %w", name, err)
	}
	return string(content), nil
}
