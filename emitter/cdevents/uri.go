// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"net/url"
	"strings"
)

// IsURI reports whether s is a URI reference that events can carry. The names of a cluster and an
// environment are checked with it before anything is sent.
func IsURI(s string) bool {
	_, ok := parseURI(s)
	return ok
}

// parseURI parses a URI reference. It is stricter than net/url, which accepts spaces and other
// characters that RFC 3986 forbids and that stricter receivers reject.
func parseURI(s string) (*url.URL, bool) {
	const others = "-._~:/?#[]@!$&'()*+,;=%"
	for _, c := range []byte(s) {
		if !alphanumeric(c) && strings.IndexByte(others, c) < 0 {
			return nil, false
		}
	}
	u, err := url.Parse(s)
	// The CloudEvents SDK writes the parsed form. If it differed from the input, header and body
	// would not match.
	if s == "" || err != nil || u.String() != s {
		return nil, false
	}
	return u, true
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
