// SPDX-License-Identifier: Apache-2.0

// Package certs makes certificate authorities and certificates for tests.
package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	// PEM is its own certificate.
	PEM string

	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Pair is a certificate with its key.
type Pair struct {
	Certificate, Key []byte // in PEM
	TLS              tls.Certificate
	Serial           int64
}

var serials atomic.Int64

// NewAuthority creates an authority that is not trusted yet.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	template := newTemplate("test authority", time.Hour)
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return &Authority{PEM: string(encode("CERTIFICATE", der)), t: t, cert: cert, key: key}
}

// Issue signs a certificate for 127.0.0.1, for servers and clients. If lasts is negative, it
// has expired already.
func (a *Authority) Issue(name string, lasts time.Duration) Pair {
	a.t.Helper()
	template := newTemplate(name, lasts)
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	key := newKey(a.t)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	must(a.t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(a.t, err)
	p := Pair{Certificate: encode("CERTIFICATE", der), Key: encode("PRIVATE KEY", private), Serial: template.SerialNumber.Int64()}
	p.TLS, err = tls.X509KeyPair(p.Certificate, p.Key)
	must(a.t, err)
	return p
}

// Pool returns a pool that trusts this authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func newTemplate(name string, lasts time.Duration) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(serials.Add(1)), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-2 * time.Hour), NotAfter: now.Add(lasts),
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return key
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
