// SPDX-License-Identifier: Apache-2.0

// Package pki creates the certificates, keys and kubeconfigs of the cluster, like an installer of a real one.
//
// Invariant: every connection of the cluster is verified against an authority created here. A file that is valid for
// another month is kept, so that a restarted cluster keeps its identities.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/store"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 365 * 24 * time.Hour
	renewBefore   = 30 * 24 * time.Hour
)

// Authority signs certificates. Its files are NAME.crt and NAME.key in a folder.
type Authority struct {
	dir  string
	name string
	cert *x509.Certificate
	key  crypto.Signer
}

// OpenAuthority reads the authority with that name from dir, or creates it.
func OpenAuthority(dir, name string) (*Authority, error) {
	a := &Authority{dir: dir, name: name}
	cert, key, err := readPair(a.CertFile(), a.keyFile())
	if err == nil && time.Until(cert.NotAfter) > renewBefore {
		a.cert, a.key = cert, key
		return a, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the authority %s: %w", name, err)
	}
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("creating a key: %w", err)
	}
	tmpl := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotAfter:              time.Now().Add(authorityLife),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
	if err := write(tmpl, tmpl, signer, signer, a.CertFile(), a.keyFile()); err != nil {
		return nil, err
	}
	a.cert, a.key, err = readPair(a.CertFile(), a.keyFile())
	return a, err
}

// CertFile returns the authority's certificate, for everyone who must trust it.
func (a *Authority) CertFile() string { return filepath.Join(a.dir, a.name+".crt") }

// KeyFile returns the authority's key; the controller manager signs with it.
func (a *Authority) KeyFile() string { return a.keyFile() }

func (a *Authority) keyFile() string { return filepath.Join(a.dir, a.name+".key") }

// Leaf describes a certificate to sign.
type Leaf struct {
	// Name is the name of the files.
	Name string
	// User and Groups are the identity of a client.
	User   string
	Groups []string
	// Hosts are the names and addresses of a server; without any, it is a client certificate only.
	Hosts []string
}

// Pair has the files of a certificate and its key.
type Pair struct{ Cert, Key string }

// Issue creates the certificate that leaf describes, unless a valid one exists.
func (a *Authority) Issue(leaf Leaf) (Pair, error) {
	p := Pair{Cert: filepath.Join(a.dir, leaf.Name+".crt"), Key: filepath.Join(a.dir, leaf.Name+".key")}
	tmpl := leaf.template()
	cert, _, err := readPair(p.Cert, p.Key)
	if err == nil && time.Until(cert.NotAfter) > renewBefore && cert.CheckSignatureFrom(a.cert) == nil && sameIdentity(cert, tmpl) {
		return p, nil
	}
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return p, fmt.Errorf("creating a key: %w", err)
	}
	return p, write(tmpl, a.cert, signer, a.key, p.Cert, p.Key)
}

func (l Leaf) template() *x509.Certificate {
	c := &x509.Certificate{
		Subject:     pkix.Name{CommonName: l.User, Organization: l.Groups},
		NotAfter:    time.Now().Add(leafLife),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if len(l.Hosts) > 0 {
		c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, h := range l.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, h)
		}
	}
	return c
}

func sameIdentity(a, b *x509.Certificate) bool {
	return fmt.Sprint(a.Subject.CommonName, a.Subject.Organization, a.DNSNames, a.IPAddresses) ==
		fmt.Sprint(b.Subject.CommonName, b.Subject.Organization, b.DNSNames, b.IPAddresses)
}

// SigningKey creates the key that signs ServiceAccount tokens. It uses RSA, because some OpenID verifiers accept
// RS256 only.
func SigningKey(path string) error {
	if store.Exists(path) {
		return nil
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return fmt.Errorf("creating the token signing key: %w", err)
	}
	return writeKey(path, key)
}

func write(tmpl, parent *x509.Certificate, own, signer crypto.Signer, certFile, keyFile string) error {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return fmt.Errorf("creating a serial number: %w", err)
	}
	tmpl.SerialNumber = serial
	// Tolerate a clock that was set back a little.
	tmpl.NotBefore = time.Now().Add(-time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, own.Public(), signer)
	if err != nil {
		return fmt.Errorf("signing %s: %w", certFile, err)
	}
	if err := writeKey(keyFile, own); err != nil {
		return err
	}
	return store.PublishFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
}

func writeKey(path string, key crypto.Signer) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encoding a key: %w", err)
	}
	return store.PublishFile(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
}

func readPair(certFile, keyFile string) (*x509.Certificate, crypto.Signer, error) {
	certDER, err := readPEM(certFile)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := readPEM(keyFile)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(certDER)
	if err != nil {
		return nil, nil, fmt.Errorf("parsing %s: %w", certFile, err)
	}
	key, err := x509.ParsePKCS8PrivateKey(keyDER)
	if err != nil {
		return nil, nil, fmt.Errorf("parsing %s: %w", keyFile, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, nil, fmt.Errorf("%s contains no signing key", keyFile)
	}
	return cert, signer, nil
}

func readPEM(path string) ([]byte, error) {
	data, err := os.ReadFile(path) //nolint:gosec // paths in the cluster's own folder
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s contains no PEM data; remove it and start again", path)
	}
	return block.Bytes, nil
}
