// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// Explain says why there is no answer and what to do about it. It wraps the error.
func Explain(err error, timeout time.Duration) error {
	var (
		refused  *RefusedError
		dns      *net.DNSError
		unknown  x509.UnknownAuthorityError
		hostname x509.HostnameError
		invalid  x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("the attempt was cancelled because the controller is stopping: %w", err)
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Errorf("host %q does not exist in DNS; check the sink's URI, or that its Service exists: %w",
			dns.Name, err)
	case errors.As(err, &unknown):
		return fmt.Errorf("the sink's certificate is signed by an authority that is not trusted; "+
			"add that authority to spec.sink.CACerts: %w", err)
	case errors.As(err, &hostname):
		return fmt.Errorf("the sink's certificate is for another host name; use the name in the certificate: %w", err)
	case errors.As(err, &invalid):
		return fmt.Errorf("the sink's certificate is not valid; renew it: %w", err)
	case IsRejectedCertificate(err):
		return fmt.Errorf("the sink did not accept the client certificate; check the Secret in "+
			"spec.auth.clientCertificate, or specify one if there is none: %w", err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing listens there; check that the sink runs and that the port is right: %w", err)
	case IsTimeout(err):
		return fmt.Errorf("no answer within %s; check the sink, or raise spec.delivery.timeout: %w", timeout, err)
	}
	return err
}

// IsRejectedCertificate says whether the sink aborted the handshake because of our certificate,
// or for lack of one. crypto/tls exports no type for the alerts of the other side.
func IsRejectedCertificate(err error) bool {
	var alert *net.OpError
	return errors.As(err, &alert) && alert.Op == "remote error" && strings.Contains(alert.Err.Error(), "certificate")
}

// IsTimeout says whether an attempt took too long.
func IsTimeout(err error) bool {
	var t net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		(errors.As(err, &t) && t.Timeout())
}
