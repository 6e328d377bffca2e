package credentials

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net/http"
)

// Shown is what is shown to a sink. It prints as nothing, however it is printed.
type Shown struct {
	authorization string
	certificate   *tls.Certificate
}

// Format implements fmt.Formatter.
func (Shown) Format(f fmt.State, _ rune) {
	_, _ = f.Write([]byte("(credentials)")) // whoever formats sees the error himself
}

// Authorize puts the header Authorization into a request, if there is one.
func (s Shown) Authorize(req *http.Request) {
	if s.authorization != "" {
		req.Header.Set("Authorization", s.authorization)
	}
}

// Certificate is the client's certificate and its key, nil if there is none.
func (s Shown) Certificate() *tls.Certificate { return s.certificate }

// CertificateID tells one client certificate from another.
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
