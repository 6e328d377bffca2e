// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A member of a newer version may say more than this one understands. What this one knows of it has its effect, and a
// request that it does not know at all is answered at once.
func TestNewerMember(t *testing.T) {
	f, a, b, echoes := two(t)
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{
		InsecureSkipVerify: true, Certificates: a.member.ServerTLS().Certificates, //nolint:gosec // a test's
	}}}
	send := func(method, body string, headers map[string]string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, "https://"+b.member.Address()+"/", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range headers {
			req.Header.Set(name, value)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		got, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(got)
	}
	next := map[string]string{"Stateful-Protocol": "2"}
	if status, got := send(http.MethodPost, `{"status":true,"future":{"a":[1]}}`, next); status != http.StatusOK || !strings.Contains(got, `"status":{`) {
		t.Errorf("a request with further fields: %d %s", status, got)
	}
	claim := fmt.Sprintf(`{"claim":{"kind":"Key","shard":1,"from":%q,"version":%d,"future":1}}`, a.member.Address(), f.controller.version())
	if status, got := send(http.MethodPost, claim, next); status != http.StatusOK || !strings.Contains(got, `"granted":true`) {
		t.Errorf("a claim with further fields: %d %s", status, got)
	}
	began := time.Now()
	if status, got := send(http.MethodPost, `{"future":{"shard":1}}`, next); status != http.StatusOK || !strings.Contains(got, "does not know such a request") {
		t.Errorf("an unknown request: %d %s", status, got)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("an unknown request was answered after %s", took)
	}
	key := keyOf(3)
	forwarded := base64.StdEncoding.EncodeToString([]byte(key)) + fmt.Sprintf(" %d further words", f.controller.version())
	if status, got := send(http.MethodGet, "", map[string]string{"Stateful-Forward": forwarded, "Stateful-Future": "1"}); status != http.StatusBadRequest {
		t.Errorf("a forwarded request whose plan is not a number: %d %s", status, got)
	}
	forwarded = base64.StdEncoding.EncodeToString([]byte(key)) + fmt.Sprintf(" %d", f.controller.version())
	status, got := send(http.MethodGet, "", map[string]string{"Stateful-Forward": forwarded, "Stateful-Future": "1"})
	if status != http.StatusOK || !strings.HasPrefix(got, "b ") || echoes[1].last().Get("Stateful-Future") != "" {
		t.Errorf("a forwarded request with further headers: %d %s %v", status, got, echoes[1].last())
	}
}
