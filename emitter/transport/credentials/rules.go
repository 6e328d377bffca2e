// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"net/url"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport/hosts"
)

// Rules say what the scheme of a sink's URI requires of credentials.
type Rules struct {
	// Secure is the scheme by which credentials are sent: one that encrypts, and checks who the sink is. It is
	// the scheme itself, or the other one to use instead.
	Secure string
	// Login says that spec.auth.authorization is the password of a login, with a user, and not the value of an
	// HTTP header. Tokens for audiences are then not sent.
	Login bool
}

// Schemes is what a Keeper must know of the schemes of sinks' URIs.
type Schemes interface {
	// Rules returns those of a scheme. Without a secure one, static credentials are not sent.
	Rules(scheme string) Rules
	// Hosts returns the hosts that a URI names. Credentials may have to be sent to each of them. The error is the
	// end of a sentence about the URI.
	Hosts(u *url.URL) ([]hosts.Host, error)
}
