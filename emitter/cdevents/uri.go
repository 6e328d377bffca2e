package cdevents

import (
	"net/url"
	"strings"
)

// IsURI says whether s is a URI reference that events can carry. What names a
// cluster or an environment is asked this before anything is sent.
func IsURI(s string) bool {
	_, ok := parseURI(s)
	return ok
}

// parseURI parses a URI reference. It is stricter than net/url, which lets pass
// spaces and other characters that RFC 3986 does not allow and that receivers
// with a real parser refuse.
func parseURI(s string) (*url.URL, bool) {
	const others = "-._~:/?#[]@!$&'()*+,;=%"
	for _, c := range []byte(s) {
		if !alphanumeric(c) && strings.IndexByte(others, c) < 0 {
			return nil, false
		}
	}
	u, err := url.Parse(s)
	// What the CloudEvents SDK writes is the parsed form; where that differs
	// from what was given, header and body would not be equal.
	if s == "" || err != nil || u.String() != s {
		return nil, false
	}
	return u, true
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
