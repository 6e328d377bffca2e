// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net/http"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport/hosts"
)

// Values holds credentials. No format prints its values.
type Values struct {
	authorization string
	certificate   *tls.Certificate
	login         Login
	// caCerts are certificate authorities that came with the login, in PEM.
	caCerts string
	// loginHosts and certificateHosts are those that the Secrets may be sent to.
	loginHosts, certificateHosts hosts.List
}

// Format implements fmt.Formatter.
func (Values) Format(f fmt.State, _ rune) {
	_, _ = f.Write([]byte("(credentials)")) // the caller of fmt sees the error
}

// Authorize sets the Authorization header of a request, if there is one.
func (s Values) Authorize(req *http.Request) {
	if s.authorization != "" {
		req.Header.Set("Authorization", s.authorization)
	}
}

// Login returns the user and the password, false if there are none.
func (s Values) Login() (Login, bool) { return s.login, s.login != Login{} }

// CACerts returns the certificate authorities that came with the login, in PEM; they are no secret.
func (s Values) CACerts() string { return s.caCerts }

// Permits says whether the credentials may be sent to a host: a sink may name further hosts when it is asked.
func (s Values) Permits(host hosts.Host) bool {
	return (s.login == Login{} || s.loginHosts.Allows(host)) && (s.certificate == nil || s.certificateHosts.Allows(host))
}

// Certificate returns the client certificate with its key, nil if there is none.
func (s Values) Certificate() *tls.Certificate { return s.certificate }

// Equal says whether two have the same content, also if they were read at different times.
func (s Values) Equal(other Values) bool {
	same := s.CertificateID() == other.CertificateID()
	s.certificate, other.certificate = nil, nil
	return same && s == other
}

// CertificateID identifies the client certificate.
func (s Values) CertificateID() [sha256.Size]byte {
	if s.certificate == nil {
		return [sha256.Size]byte{}
	}
	h := sha256.New()
	for _, der := range s.certificate.Certificate {
		h.Write(der)
	}
	return [sha256.Size]byte(h.Sum(nil))
}
