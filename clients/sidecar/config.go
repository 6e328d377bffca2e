// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agnivade/levenshtein"

	"github.com/knative-cdevents/knative-cdevents/clients/placement"
	"github.com/knative-cdevents/knative-cdevents/clients/sidecar/key"
)

// Config of a sidecar, as FromEnvironment reads it.
type Config struct {
	Placement  placement.Settings
	Key        key.Func
	EntityType string
	// PodIP is where other pods reach this one.
	PodIP                                           string
	ApplicationPort, Port, ManagementPort, PeerPort int
	// Concurrency is how many requests the container handles at a time; 0: any number.
	Concurrency, MostOpen   int
	RequestTimeout          time.Duration
	Strict, Together, Hooks bool
	// Embedded: the process has a server of its own for requests that enter, which passes them to Sidecar.Entry.
	Embedded bool
	// DrainURL is where queue-proxy answers when it has drained; empty: it is not asked.
	DrainURL string
	// host is where the application and the entry listen: 127.0.0.1, except in tests.
	host string
	// mostRead is how many bytes of events may be in memory because their keys are there.
	mostRead int
	// linger is how long a member answers after it has left.
	linger time.Duration
	// drainsFor is after what time a drain of queue-proxy is taken for the end of the pod, and saidWithin how long the
	// controller may take to say so after a shorter one.
	drainsFor, saidWithin time.Duration
}

func (c Config) applicationHost() string { return cmp.Or(c.host, "127.0.0.1") }

const (
	variablePrefix = "STATEFUL_"
	mostRead       = 64 << 20
	lingerFor      = 2 * time.Second
	// drainsFor is between 1 s, after which queue-proxy answers if the pod stays, and 30 s, which it drains at least.
	drainsFor  = 15 * time.Second
	saidWithin = 3 * time.Second
	drainURL   = "http://127.0.0.1:8022/wait-for-drain"
)

// reserved are the ports of queue-proxy.
var reserved = []int{8008, 8012, 8013, 8022, 8112, 9090, 9091}

// variable is one of the environment, without the prefix.
type variable struct {
	name, preset string
	// set returns what is wrong with a value.
	set func(c *Config, value string) error
}

func text(to func(*Config) *string) func(*Config, string) error {
	return func(c *Config, v string) error { *to(c) = v; return nil }
}

func number(least, most int, to func(*Config) *int) func(*Config, string) error {
	return func(c *Config, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < least || n > most {
			return fmt.Errorf("it must be a number from %d to %d", least, most)
		}
		*to(c) = n
		return nil
	}
}

func flag(to func(*Config) *bool) func(*Config, string) error {
	return func(c *Config, v string) error {
		if v != "true" && v != "false" {
			return errors.New("it must be true or false")
		}
		*to(c) = v == "true"
		return nil
	}
}

func span(least, most time.Duration, to func(*Config) *time.Duration) func(*Config, string) error {
	return func(c *Config, v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d < least || d > most {
			return fmt.Errorf("it must be a duration from %s to %s, such as %s", least, most, least)
		}
		*to(c) = d
		return nil
	}
}

// variables are all that there are. The README describes them.
var variables = []variable{
	{"KEY", "", func(c *Config, v string) (err error) { c.Key, err = key.Parse(v); return err }},
	{"SHARDS", "100", number(1, 65536, func(c *Config) *int { return &c.Placement.Shards })},
	{"ENTITY_TYPE", "Key", func(c *Config, v string) error {
		if strings.ContainsAny(v, "/?#%\"\\ ,") {
			return errors.New("it must be a name without blanks and / ? # % , \" \\, such as Cart")
		}
		c.EntityType = v
		return nil
	}},
	{"APPLICATION_PORT", "", number(1, 65535, func(c *Config) *int { return &c.ApplicationPort })},
	{"PORT", "8480", number(1, 65535, func(c *Config) *int { return &c.Port })},
	{"MANAGEMENT_PORT", "8481", number(1, 65535, func(c *Config) *int { return &c.ManagementPort })},
	{"PEER_PORT", "8482", number(1, 65535, func(c *Config) *int { return &c.PeerPort })},
	{"POD_IP", "", func(c *Config, v string) error {
		if net.ParseIP(v) == nil {
			return errors.New("it must be an IP address; set it from the field status.podIP")
		}
		c.PodIP = v
		return nil
	}},
	{"NAMESPACE", "", text(func(c *Config) *string { return &c.Placement.Namespace })},
	{"SERVICE", "", text(func(c *Config) *string { return &c.Placement.Service })},
	{"CONTROLLER_URL", "", text(func(c *Config) *string { return &c.Placement.URL })},
	{"CA_FILE", "", text(func(c *Config) *string { return &c.Placement.CAFile })},
	{"TOKEN_FILE", "", text(func(c *Config) *string { return &c.Placement.TokenFile })},
	{"CONTAINER_CONCURRENCY", "0", number(0, 100_000, func(c *Config) *int { return &c.Concurrency })},
	{"MAX_OPEN", "10000", number(1, 1_000_000, func(c *Config) *int { return &c.MostOpen })},
	{"PATIENCE", "10s", span(time.Millisecond, 10*time.Minute, func(c *Config) *time.Duration { return &c.Placement.Patience })},
	{"LEASE", "10s", span(time.Second, 10*time.Minute, func(c *Config) *time.Duration { return &c.Placement.Lease })},
	{"REQUEST_TIMEOUT", "300s", span(time.Second, 24*time.Hour, func(c *Config) *time.Duration { return &c.RequestTimeout })},
	{"STRICT", "false", flag(func(c *Config) *bool { return &c.Strict })},
	{"RESTART_TOGETHER", "false", flag(func(c *Config) *bool { return &c.Together })},
	{"HOOKS", "true", flag(func(c *Config) *bool { return &c.Hooks })},
	{"DRAIN_URL", drainURL, text(func(c *Config) *string { return &c.DrainURL })},
}

// serviceLink is a variable with which kubelet describes a Service whose name begins with stateful, if the template of
// the pod asks for that. One whose value is an address, such as STATEFUL_PORT, is told from a setting by the value.
var serviceLink = regexp.MustCompile(
	`^(.+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_[A-Z]+)?)$`)

// required must be set.
var required = []string{"KEY", "APPLICATION_PORT", "POD_IP"}

// FromEnvironment reads the variables that begin with STATEFUL_. The error names each one that is wrong or not known,
// and what would be right.
func FromEnvironment(environment []string) (Config, error) {
	c := Config{mostRead: mostRead, linger: lingerFor, drainsFor: drainsFor, saidWithin: saidWithin}
	var errs []error
	given := map[string]string{}
	all := map[string]string{}
	for _, one := range environment {
		name, value, _ := strings.Cut(one, "=")
		all[name] = value
		short, ours := strings.CutPrefix(name, variablePrefix)
		if !ours || serviceLink.MatchString(short) || strings.HasSuffix(short, "PORT") && strings.Contains(value, "://") {
			continue
		}
		given[short] = value
		if !slices.ContainsFunc(variables, func(v variable) bool { return v.name == short }) {
			errs = append(errs, fmt.Errorf("%s is not a setting; did you mean %s?", name, variablePrefix+nearest(short)))
		}
	}
	for _, v := range variables {
		value := cmp.Or(given[v.name], v.preset)
		if value == "" {
			if slices.Contains(required, v.name) {
				errs = append(errs, fmt.Errorf("%s is not set, and has no default", variablePrefix+v.name))
			}
			continue
		}
		if err := v.set(&c, value); err != nil {
			errs = append(errs, fmt.Errorf("%s is %q: %w", variablePrefix+v.name, value, err))
		}
	}
	errs = append(errs, c.check()...)
	if len(errs) > 0 {
		return c, errors.Join(errs...)
	}
	var err error
	c.Placement, err = c.Placement.Complete(func(name string) string { return all[name] }, placement.OwnNamespace)
	if err != nil {
		return c, fmt.Errorf("the settings of the placement are not right: %w", err)
	}
	return c, nil
}

func (c Config) check() (errs []error) {
	ports := map[int]string{}
	for _, p := range []struct {
		name string
		port int
	}{
		{"APPLICATION_PORT", c.ApplicationPort},
		{"PORT", c.Port},
		{"MANAGEMENT_PORT", c.ManagementPort},
		{"PEER_PORT", c.PeerPort},
	} {
		if slices.Contains(reserved, p.port) {
			errs = append(errs, fmt.Errorf("%s%s is %d, which belongs to queue-proxy; choose another port",
				variablePrefix, p.name, p.port))
		}
		if other := ports[p.port]; other != "" && p.port > 0 {
			errs = append(errs, fmt.Errorf("%s and %s are both %d; each needs a port of its own",
				variablePrefix+p.name, variablePrefix+other, p.port))
		}
		ports[p.port] = p.name
	}
	if c.Strict && c.Placement.Lease < 6*time.Second {
		errs = append(errs, fmt.Errorf("%sSTRICT needs a %[1]sLEASE of at least 6s, because it asks every sixth of it",
			variablePrefix))
	}
	return errs
}

// nearest returns the variable whose name has the fewest edits.
func nearest(name string) string {
	edits := func(v variable) int { return levenshtein.ComputeDistance(name[:min(len(name), 64)], v.name) }
	return slices.MinFunc(variables, func(a, b variable) int { return cmp.Compare(edits(a), edits(b)) }).name
}
