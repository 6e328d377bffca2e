// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net/http"
)

// Values holds credentials. No format prints its values.
type Values struct {
	authorization string
	certificate   *tls.Certificate
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

// Certificate returns the client certificate with its key, nil if there is none.
func (s Values) Certificate() *tls.Certificate { return s.certificate }

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
