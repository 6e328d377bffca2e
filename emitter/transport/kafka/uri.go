// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/hosts"
)

// Schemes are those of topics of Kafka, without and with TLS.
var Schemes = transport.Schemes{
	"kafka":  {Credentials: rules, Form: "kafka://HOST:PORT/TOPIC", Hosts: hostsOf, Check: check},
	"kafkas": {Credentials: rules, Form: "kafkas://HOST:PORT/TOPIC", Hosts: hostsOf, Check: check},
}

var rules = credentials.Rules{Secure: "kafkas", Login: true}

const (
	// defaultPort is where brokers listen without and with TLS, unless they are configured otherwise.
	defaultPort = "9092"
	// maxServers limits the bootstrap servers of a URI.
	maxServers = 16
)

// topics matches the names that brokers allow.
var topics = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// address is what a URI says.
type address struct {
	// servers are the bootstrap servers, each with host and port.
	servers []string
	hosts   []hosts.Host
	topic   string
	tls     bool
}

// parse reads the URI of a sink. Its errors are the end of a sentence about the URI.
func parse(u *url.URL) (address, error) {
	a := address{tls: strings.EqualFold(u.Scheme, "kafkas"), topic: strings.TrimPrefix(u.Path, "/")}
	names := strings.Split(u.Host, ",")
	if len(names) > maxServers {
		return a, fmt.Errorf("it has %d bootstrap servers; use at most %d", len(names), maxServers)
	}
	for _, name := range names {
		host, port, err := split(name)
		if err != nil {
			return a, err
		}
		a.hosts = append(a.hosts, host)
		a.servers = append(a.servers, net.JoinHostPort(host.String(), port))
	}
	switch {
	case u.User != nil:
		return a, errors.New("it has a user; specify user and password in spec.auth.authorization")
	case !topics.MatchString(a.topic) || a.topic == "." || a.topic == "..":
		return a, errors.New("it must end with the name of a topic: letters, digits, dots, hyphens and underscores")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return a, errors.New("it must have neither a query nor a fragment")
	}
	return a, nil
}

// split reads a host with or without a port.
func split(name string) (hosts.Host, string, error) {
	text, port := name, defaultPort
	if i := strings.LastIndexByte(name, ':'); i >= 0 && !strings.HasSuffix(name, "]") {
		text, port = name[:i], name[i+1:]
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return hosts.Host{}, "", fmt.Errorf("the port in %q is not a number from 1 to 65535", name)
	}
	host, err := hosts.Of(text)
	if err != nil {
		return host, "", fmt.Errorf("the host %w", err)
	}
	return host, port, nil
}

func hostsOf(u *url.URL) ([]hosts.Host, error) {
	a, err := parse(u)
	return a.hosts, err
}

func check(u *url.URL) error {
	_, err := parse(u)
	return err
}
