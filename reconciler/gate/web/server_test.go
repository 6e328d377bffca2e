package web

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// begin serves at an address until the test ends, and then wants an orderly end.
func begin(t *testing.T, certificate string) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- serve(ctx, listener, certificate, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Error("it does not end")
		}
	})
	return listener.Addr().String()
}

// certify writes a certificate, as a Secret is mounted, and returns whom to trust.
func certify(t *testing.T, dir, name string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	for file, block := range map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: der}, "tls.key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return pool
}

func get(t *testing.T, url string, config *tls.Config) (int, error) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}, Timeout: 5 * time.Second}
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
	first := &tls.Config{RootCAs: certify(t, dir, "first"), ServerName: "first", MinVersion: tls.VersionTLS12}
	at := begin(t, dir)
	if status, err := get(t, "https://"+at, first); err != nil || status != http.StatusTeapot {
		t.Error(status, err)
	}
	if status, err := get(t, "http://"+at, nil); err == nil && status == http.StatusTeapot {
		t.Error("it answers in the open")
	}
	// A new one counts without a restart.
	second := &tls.Config{RootCAs: certify(t, dir, "second"), ServerName: "second", MinVersion: tls.VersionTLS12}
	if status, err := get(t, "https://"+at, second); err != nil || status != http.StatusTeapot {
		t.Error(status, err)
	}
	if _, err := get(t, "https://"+at, first); err == nil {
		t.Error("the old certificate is still shown")
	}
}

func TestABrokenCertificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certify(t, dir, "broken")
	if err := os.WriteFile(filepath.Join(dir, "tls.crt"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Serve(t.Context(), "127.0.0.1:0", dir, http.NotFoundHandler()); err == nil {
		t.Error("tokens would go about in the open")
	}
}

func TestAnAddressThatIsTaken(t *testing.T) {
	t.Parallel()
	at := begin(t, t.TempDir())
	if err := Serve(t.Context(), at, t.TempDir(), http.NotFoundHandler()); err == nil {
		t.Error("nobody is told that it does not serve")
	}
}
