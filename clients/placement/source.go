// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	mostBytes = 4 << 20
	// answerWithin is how long an answer may take, beyond the time that the server waits for a new plan.
	answerWithin = 10 * time.Second
	// mostRetryAfter limits what a server can ask for.
	mostRetryAfter = 10 * time.Minute
)

// source is the server that has the plan.
type source struct {
	settings Settings
	client   *http.Client
	url      string
}

func newSource(s Settings) (*source, error) {
	transport := &http.Transport{
		DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext, TLSHandshakeTimeout: 5 * time.Second,
		IdleConnTimeout: 90 * time.Second, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
	if s.CAFile != "" {
		pem, err := os.ReadFile(s.CAFile)
		if err != nil {
			return nil, fmt.Errorf("placement: Settings.CAFile cannot be read; mount the volume that has it: %w", err)
		}
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("placement: Settings.CAFile %s has no certificate; it must have certificate authorities in PEM", s.CAFile)
		}
	}
	var through http.RoundTripper = transport
	if s.Transport != nil {
		through = s.Transport
	}
	return &source{
		settings: s, url: s.URL + "/v1/namespaces/" + s.Namespace + "/services/" + s.Service + "/placement",
		client: &http.Client{
			Transport: through,
			// The token must not follow a redirect.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// ask requests the plan. If one is known, the server answers when there is another one, or after a while.
func (s *source) ask(ctx context.Context, k Known) answer {
	limit := answerWithin
	if k.plan != nil {
		limit += s.settings.Wait
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := s.request(ctx, k)
	if err != nil {
		return answer{why: err.Error()}
	}
	return s.send(req, k)
}

// register makes this member known. The answer is a plan that has it among its peers.
func (s *source) register(ctx context.Context) answer {
	a := s.member(ctx, http.MethodPut)
	isMe := func(p Peer) bool { return p.Pin == s.settings.Register.Pin && !p.Gone }
	if a.outcome == found && !slices.ContainsFunc(a.plan.Peers, isMe) {
		return answer{why: s.url + " answered a registration with a plan that does not have this member"}
	}
	return a
}

// member sends what this member is, to register it, or to say that it has left.
func (s *source) member(ctx context.Context, method string) answer {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	body, err := json.Marshal(s.settings.Register)
	if err != nil {
		return answer{why: fmt.Sprintf("encoding the registration: %v", err)}
	}
	req, err := s.request(ctx, Known{})
	if err != nil {
		return answer{why: err.Error()}
	}
	req.Method, req.URL.Path = method, req.URL.Path+"/member"
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	req.Header.Set("Content-Type", "application/json")
	return s.send(req, Known{})
}

func (s *source) send(req *http.Request, k Known) answer {
	resp, err := s.client.Do(req)
	if err != nil {
		return answer{why: err.Error()}
	}
	defer func() { _ = resp.Body.Close() }() // a read error is already returned
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostBytes+1))
	if err == nil && len(body) > mostBytes {
		err = fmt.Errorf("the answer has more than %d bytes", mostBytes)
	}
	if err != nil {
		return answer{why: fmt.Sprintf("reading the answer of %s: %v", s.url, err)}
	}
	a := s.understand(resp, body, k)
	a.retryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
	return a
}

func (s *source) request(ctx context.Context, k Known) (*http.Request, error) {
	// kubelet renews the file long before the token expires.
	token, err := os.ReadFile(s.settings.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("reading the token: %w", err)
	}
	url := s.url
	if k.plan != nil {
		url += "?wait=" + strconv.Itoa(int(s.settings.Wait.Seconds())) + "s"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("making a request for the plan: %w", err)
	}
	if k.plan != nil {
		req.Header.Set("If-None-Match", strconv.Quote(strconv.FormatInt(k.version, 10)))
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	return req, nil
}

func (s *source) understand(resp *http.Response, body []byte, k Known) answer {
	said := fmt.Sprintf("%s answered %d", s.url, resp.StatusCode)
	var problem struct{ Error, Reason string }
	if resp.StatusCode >= http.StatusBadRequest {
		_ = json.Unmarshal(body, &problem) // a proxy's answer is no JSON; the status says enough
	}
	switch resp.StatusCode {
	case http.StatusOK:
		p, err := parsePlan(body)
		if err != nil {
			return answer{why: said + ": " + err.Error()}
		}
		if p.Namespace != s.settings.Namespace || p.Service != s.settings.Service {
			return answer{why: said + " with the plan of " + p.Namespace + "/" + p.Service}
		}
		return answer{outcome: found, plan: p}
	case http.StatusNotModified:
		if k.plan != nil {
			return answer{outcome: unchanged}
		}
		return answer{why: said + ", but no plan is known"}
	case http.StatusUnauthorized, http.StatusForbidden:
		return answer{outcome: refused, why: said + ": " + problem.Error}
	case http.StatusNotFound:
		switch problem.Reason {
		case "NotEnabled":
			return answer{outcome: notEnabled}
		case "NoPlanYet":
			return answer{outcome: refused, why: "the controller has no plan yet"}
		}
		return answer{why: said + " without a known reason: is this the address of the controller?"}
	}
	return answer{why: said + ": " + problem.Error}
}

// retryAfter reads the header, which has seconds or a date.
func retryAfter(header string, now time.Time) time.Duration {
	var wait time.Duration
	if seconds, err := strconv.Atoi(header); err == nil {
		wait = time.Duration(min(seconds, int(mostRetryAfter.Seconds()))) * time.Second
	} else if at, err := http.ParseTime(header); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), mostRetryAfter)
}
