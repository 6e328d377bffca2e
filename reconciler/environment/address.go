// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
)

// endpoint returns an absolute URI for an address: a URL, a host, or a host with a port. The port, if there is one,
// is for an address without one. Some providers write a URL where a host belongs, and IPv6 addresses with and without
// brackets.
func endpoint(address string, port int64) (string, error) {
	if len(address) > maxURL {
		return "", fmt.Errorf("it has more than %d bytes", maxURL)
	}
	address = sanitize.WithoutCredentials(address)
	scheme, rest, is := strings.Cut(address, "://")
	if !is {
		scheme, rest = "https", address
	}
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	host, err := hostPort(authority, port)
	if err != nil {
		return "", err
	}
	whole := sanitize.WithoutCredentials(scheme + "://" + host + tail) // with the scheme, a name before the host is one
	if u, err := url.Parse(whole); err != nil || u.Host == "" {
		return "", fmt.Errorf("%q is no address", sanitize.Truncate(address, maxField))
	}
	return whole, nil
}

// hostPort returns an authority as a URL has it.
func hostPort(authority string, port int64) (string, error) {
	host := strings.TrimSuffix(strings.TrimPrefix(authority, "["), "]")
	if h, p, err := net.SplitHostPort(authority); err == nil {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil {
			return "", fmt.Errorf("%q is no port", sanitize.Truncate(p, maxField))
		}
		host, port = h, int64(n)
	}
	if ip, err := netip.ParseAddr(host); strings.Contains(host, ":") && (err != nil || ip.Zone() != "") || host == "" {
		return "", fmt.Errorf("%q is no host", sanitize.Truncate(authority, maxField))
	}
	switch {
	case port < 0 || port > 1<<16-1:
		return "", fmt.Errorf("%d is no port", port)
	case port > 0:
		return net.JoinHostPort(host, strconv.FormatInt(port, 10)), nil
	case strings.Contains(host, ":"):
		return "[" + host + "]", nil
	}
	return host, nil
}
