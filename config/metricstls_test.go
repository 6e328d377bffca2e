// SPDX-License-Identifier: Apache-2.0

package config

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"knative.dev/pkg/observability/metrics/prometheus"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// With the component, metrics are served over TLS, and only to clients with a certificate: the server of Knative, which
// both programs have, gets its settings from the environment.
func TestMetricsOverTLS(t *testing.T) {
	folder := t.TempDir()
	for name, d := range withComponent(t, "optional/metrics-tls") {
		pod := d.Spec.Template.Spec
		mounts := func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.SecretName == "metrics-tls" }
		if !slices.ContainsFunc(pod.Volumes, mounts) {
			t.Errorf("%s mounts %+v", name, pod.Volumes)
		}
		found := 0
		for _, e := range pod.Containers[0].Env {
			if strings.HasPrefix(e.Name, "METRICS_") {
				t.Setenv(e.Name, strings.Replace(e.Value, "/etc/metrics-tls", folder, 1))
				found++
			}
		}
		if found != 4 {
			t.Errorf("%s has %d of the variables", name, found)
		}
	}
	certificate, authorities := selfSigned(t, folder)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil || listener.Close() != nil {
		t.Fatal(err)
	}
	server, err := prometheus.NewServer(prometheus.WithHost(host), prometheus.WithPort(port))
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve() }()
	defer func() { _ = server.Shutdown(context.WithoutCancel(t.Context())) }()
	read := func(scheme string, own ...tls.Certificate) (int, error) {
		client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{
			RootCAs: authorities, Certificates: own, MinVersion: tls.VersionTLS13,
		}}}
		at := scheme + "://" + net.JoinHostPort(host, port) + "/metrics"
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(request)
		if err != nil {
			return 0, err
		}
		return answer.StatusCode, answer.Body.Close()
	}
	code := 0
	for end := time.Now().Add(10 * time.Second); code != http.StatusOK && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
		code, err = read("https", certificate)
	}
	if code != http.StatusOK {
		t.Errorf("with a certificate: %d, %v", code, err)
	}
	if code, err := read("https"); err == nil {
		t.Errorf("without a certificate: %d", code)
	}
	if code, _ := read("http"); code == http.StatusOK {
		t.Error("metrics are served without TLS, too")
	}
}

// withComponent builds the installation with a component of kustomize.
func withComponent(t *testing.T, component string) map[string]*appsv1.Deployment {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	overlay := t.TempDir()
	base, err := filepath.Rel(overlay, here)
	if err != nil {
		t.Fatal(err)
	}
	text := "resources: [" + base + "]\ncomponents: [" + filepath.Join(base, component) + "]\n"
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), overlay)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*appsv1.Deployment{}
	for _, r := range built.Resources() {
		if r.GetKind() != "Deployment" {
			continue
		}
		d := &appsv1.Deployment{}
		if err := yaml.UnmarshalStrict([]byte(r.MustYaml()), d); err != nil {
			t.Fatal(err)
		}
		out[d.Name] = d
	}
	if len(out) != len(deployments(t)) {
		t.Fatalf("%d Deployments", len(out))
	}
	return out
}

// selfSigned writes a certificate that is good for both sides, as the Secret has it.
func selfSigned(t *testing.T, folder string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	secret := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	for name, content := range map[string][]byte{"tls.crt": cert, "tls.key": secret, "ca.crt": cert} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pair, err := tls.X509KeyPair(cert, secret)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	return pair, pool
}
