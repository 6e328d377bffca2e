// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net/http"
)

// Shown holds credentials. No format prints its values.
type Shown struct {
	authorization string
	certificate   *tls.Certificate
}

// Format implements fmt.Formatter.
func (Shown) Format(f fmt.State, _ rune) {
	_, _ = f.Write([]byte("(credentials)")) // the caller of fmt sees the error
}

// Authorize sets the Authorization header of a request, if there is one.
func (s Shown) Authorize(req *http.Request) {
	if s.authorization != "" {
		req.Header.Set("Authorization", s.authorization)
	}
}

// Certificate returns the client certificate with its key, nil if there is none.
func (s Shown) Certificate() *tls.Certificate { return s.certificate }

// CertificateID identifies the client certificate.
func (s Shown) CertificateID() [sha256.Size]byte {
	if s.certificate == nil {
		return [sha256.Size]byte{}
	}
	h := sha256.New()
	for _, der := range s.certificate.Certificate {
		h.Write(der)
	}
	return [sha256.Size]byte(h.Sum(nil))
}
