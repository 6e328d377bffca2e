// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/hosts"
)

// Scheme is what is known of the sinks whose URIs have a scheme, without a connection to one.
type Scheme struct {
	// Credentials says what the scheme requires of credentials.
	Credentials credentials.Rules
	// Form is the form of a URI, for messages.
	Form string
	// Hosts returns the hosts that a URI names; nil for its one host.
	Hosts func(*url.URL) ([]hosts.Host, error)
	// Check returns what else is wrong with a URI, as the end of a sentence about it; nil for nothing.
	Check func(*url.URL) error
}

// Schemes holds them by name. It implements credentials.Schemes.
type Schemes map[string]Scheme

var _ credentials.Schemes = Schemes{}

// Join returns all of these schemes.
func Join(all ...Schemes) Schemes {
	out := Schemes{}
	for _, s := range all {
		maps.Copy(out, s)
	}
	return out
}

// Rules implements credentials.Schemes. An unknown scheme encrypts nothing.
func (s Schemes) Rules(scheme string) credentials.Rules {
	return s[strings.ToLower(scheme)].Credentials
}

// Hosts returns the hosts that a URI names, at least one.
func (s Schemes) Hosts(u *url.URL) ([]hosts.Host, error) {
	if f := s[strings.ToLower(u.Scheme)].Hosts; f != nil {
		return f(u)
	}
	host, err := hosts.Of(u.Hostname())
	if err != nil {
		return nil, fmt.Errorf("the host %w", err)
	}
	return []hosts.Host{host}, nil
}

// Check returns what is wrong with the URI of a sink, apart from its scheme: the end of a sentence about it.
func (s Schemes) Check(u *url.URL) error {
	if _, err := s.Hosts(u); err != nil {
		return err
	}
	if f := s[strings.ToLower(u.Scheme)].Check; f != nil {
		return f(u)
	}
	return nil
}

// String lists the names: "http, https or queue".
func (s Schemes) String() string {
	names := slices.Sorted(maps.Keys(s))
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
