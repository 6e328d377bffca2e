// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func authority(t *testing.T, dir, name string) *Authority {
	t.Helper()
	a, err := OpenAuthority(dir, name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestIssueKeepsOnlyMatchingCertificates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	leaf := Leaf{Name: "node", User: "system:node:a", Groups: []string{"system:nodes"}, Hosts: []string{"a", "10.0.0.1"}}
	p, err := authority(t, dir, "ca").Issue(leaf)
	if err != nil {
		t.Fatal(err)
	}
	first := content(t, p.Cert)
	if _, err := authority(t, dir, "ca").Issue(leaf); err != nil {
		t.Fatal(err)
	}
	if content(t, p.Cert) != first {
		t.Error("a valid certificate was replaced")
	}
	leaf.Hosts = []string{"a", "10.0.0.2"}
	if _, err := authority(t, dir, "ca").Issue(leaf); err != nil {
		t.Fatal(err)
	}
	if content(t, p.Cert) == first {
		t.Error("a certificate for another address was kept")
	}
	info, err := os.Stat(p.Key)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's mode: %v, %v", info.Mode(), err)
	}
}

func TestAuthoritiesDoNotTrustEachOther(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, other := authority(t, dir, "ca"), authority(t, dir, "etcd-ca")
	server, err := ca.Issue(Leaf{Name: "server", User: "server", Hosts: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	good, err := ca.Issue(Leaf{Name: "admin", User: "admin", Groups: []string{"system:masters"}})
	if err != nil {
		t.Fatal(err)
	}
	bad, err := other.Issue(Leaf{Name: "stranger", User: "admin", Groups: []string{"system:masters"}})
	if err != nil {
		t.Fatal(err)
	}
	url := serve(t, ca, server)
	if who, err := ask(t, url, ca, good); err != nil || who != "admin [system:masters]" {
		t.Errorf("got %q, %v", who, err)
	}
	if _, err := ask(t, url, ca, bad); err == nil {
		t.Error("the server accepted a certificate of another authority")
	}
	if _, err := ask(t, url, other, good); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("the client accepted a server of another authority: %v", err)
	}
}

func pool(t *testing.T, a *Authority) *x509.CertPool {
	t.Helper()
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM([]byte(content(t, a.CertFile()))) {
		t.Fatal("no certificate")
	}
	return p
}

func serve(t *testing.T, ca *Authority, pair Pair) string {
	t.Helper()
	cert, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := r.TLS.PeerCertificates[0].Subject
		w.Header().Set("Who", who.CommonName+" ["+strings.Join(who.Organization, ",")+"]")
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool(t, ca), MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

func ask(t *testing.T, url string, ca *Authority, pair Pair) (string, error) {
	t.Helper()
	cert, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: pool(t, ca), Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12,
	}}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	return resp.Header.Get("Who"), resp.Body.Close()
}

func TestKubeconfigIsSelfContained(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := authority(t, dir, "ca")
	p, err := ca.Issue(Leaf{Name: "admin", User: "admin"})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "admin.kubeconfig")
	if err := WriteKubeconfig(path, "https://172.30.0.1:6443", ca.CertFile(), "system:node:a", p); err != nil {
		t.Fatal(err)
	}
	text := content(t, path)
	if strings.Contains(text, dir) || strings.Contains(text, "insecure") || !strings.Contains(text, "https://172.30.0.1:6443") {
		t.Errorf("got %s", text)
	}
}
