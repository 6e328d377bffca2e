// SPDX-License-Identifier: Apache-2.0

package authserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/certs"
)

// begin serves until the test ends, and then checks the shutdown.
func begin(t *testing.T, certificate string) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- ServeListener(ctx, listener, certificate,
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Error("the server does not shut down")
		}
	})
	return listener.Addr().String()
}

// mount writes a certificate of a new authority as a mounted Secret would, and returns a
// config that trusts it.
func mount(t *testing.T, dir string) *tls.Config {
	t.Helper()
	authority := certs.NewAuthority(t)
	pair := authority.Issue("controller", time.Hour)
	for file, content := range map[string][]byte{"tls.crt": pair.Certificate, "tls.key": pair.Key} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(authority.PEM))
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

func get(t *testing.T, url string, config *tls.Config) (int, error) {
	t.Helper()
	client := &http.Client{
		Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true},
		Timeout:   5 * time.Second,
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

func TestWithoutACertificate(t *testing.T) {
	t.Parallel()
	at := begin(t, filepath.Join(t.TempDir(), "not-mounted"))
	if status, err := get(t, "http://"+at, nil); err != nil || status != http.StatusTeapot {
		t.Error(status, err)
	}
}

func TestWithACertificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := mount(t, dir)
	at := begin(t, dir)
	if status, err := get(t, "https://"+at, first); err != nil || status != http.StatusTeapot {
		t.Error(status, err)
	}
	if status, err := get(t, "http://"+at, nil); err == nil && status == http.StatusTeapot {
		t.Error("the server answers without TLS")
	}
	// A renewed certificate takes effect without a restart.
	second := mount(t, dir)
	if status, err := get(t, "https://"+at, second); err != nil || status != http.StatusTeapot {
		t.Error(status, err)
	}
	if _, err := get(t, "https://"+at, first); err == nil {
		t.Error("the server still uses the old certificate")
	}
}

func TestInvalidCertificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mount(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "tls.crt"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Serve(t.Context(), "127.0.0.1:0", dir, http.NotFoundHandler()); err == nil {
		t.Error("the server starts without TLS and would accept tokens in plain text")
	}
}

func TestAddressInUse(t *testing.T) {
	t.Parallel()
	at := begin(t, t.TempDir())
	if err := Serve(t.Context(), at, t.TempDir(), http.NotFoundHandler()); err == nil {
		t.Error("Serve returned no error")
	}
}
