// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"
)

const (
	defaultURL       = "http://controller.knative-cdevents.svc"
	defaultTokenFile = "/var/run/secrets/placement.knative-cdevents.dev/token" //nolint:gosec // a path
	// OwnNamespace is the file that has the namespace of a pod.
	OwnNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
	maxShards    = 65536
)

var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// Settings of a member. Only Shards is required in a pod of a Knative Service.
type Settings struct {
	// Shards is the number of shards of each kind, from 1 to 65536. It must be the same in all members, and in the
	// annotation stateful.knative-cdevents.dev/shards.
	Shards int
	// ShardOf returns the shard of any identity, from 0 to shards-1. It must be the same in all members. Nil: the FNV-1a
	// hash (32 bits) of the identity, modulo shards.
	ShardOf func(identity string, shards int) int
	// Disabled asks the controller for nothing: shards are placed evenly. For running outside of Knative.
	Disabled bool
	// URL of the controller. Empty: http://controller.knative-cdevents.svc. With https, the token is not sent in clear.
	URL string
	// Namespace of the Knative Service. Empty: the pod's own.
	Namespace string
	// Service is the name of the Knative Service. Empty: the environment variable K_SERVICE, which Knative sets.
	Service string
	// TokenFile is the projected token for the audience placement.knative-cdevents.dev. It is read for each request.
	// Empty: /var/run/secrets/placement.knative-cdevents.dev/token.
	TokenFile string
	// CAFile has the certificate authorities (PEM) for an https URL. It is read once. Empty: those of
	// the system.
	CAFile string
	// Wait is how long the controller waits for a new plan before it answers that there is none, in whole seconds from 1 s
	// to 60 s. 0: 30 s.
	Wait time.Duration
	// StaleAfter: no shard moves if the controller has not confirmed the plan for this long. Longer than Wait, at most 90
	// s. 0: 90 s.
	StaleAfter time.Duration
	// MinBackoff and MaxBackoff limit the pause after a request that failed. 0: 1 s and 30 s.
	MinBackoff, MaxBackoff time.Duration
	// Lease is how long the others wait before they take the shards of a member that left the cluster without handing them
	// over. Such a member stops its grains when it learns that it has left; this time must be enough for both. From 100
	// ms. 0: 10 s.
	Lease time.Duration
	// Patience is how long a call waits for a grain whose shard is being handed over, before the caller's own retry. 0: 5
	// s.
	Patience time.Duration

	// Transport reaches the controller. Nil: one that uses CAFile.
	Transport http.RoundTripper
	// Register is what the controller learns of this member before it asks for the first plan. Nil: nothing.
	Register *Registration

	// Tick is how often the leading member looks for shards to move. 0: 1 s.
	Tick time.Duration
}

// Registration is a member as it registers with the controller.
type Registration struct {
	Address string `json:"address"`
	Pin     string `json:"pin"`
}

// Complete sets defaults, and returns an error for each setting that is wrong: what it is, and what would be right.
func (s Settings) Complete(env func(string) string, namespaceFile string) (Settings, error) {
	s.Wait = cmp.Or(s.Wait, 30*time.Second)
	s.StaleAfter = cmp.Or(s.StaleAfter, 90*time.Second)
	s.MinBackoff = cmp.Or(s.MinBackoff, time.Second)
	s.MaxBackoff = cmp.Or(s.MaxBackoff, max(30*time.Second, s.MinBackoff))
	s.Lease = cmp.Or(s.Lease, 10*time.Second)
	s.Patience = cmp.Or(s.Patience, 5*time.Second)
	s.Tick = cmp.Or(s.Tick, time.Second)
	if s.ShardOf == nil {
		s.ShardOf = ShardOf
	}
	var errs []error
	wrong := func(what string, args ...any) { errs = append(errs, fmt.Errorf("placement: "+what, args...)) }
	if s.Shards < 1 || s.Shards > maxShards {
		wrong("Settings.Shards is %d; it must be the number of shards of each kind, from 1 to %d", s.Shards, maxShards)
	}
	if s.Wait < time.Second || s.Wait > time.Minute || s.Wait%time.Second != 0 {
		wrong("Settings.Wait is %s; it must be whole seconds from 1s to 60s", s.Wait)
	}
	if s.StaleAfter <= s.Wait || s.StaleAfter > 90*time.Second {
		wrong("Settings.StaleAfter is %s; it must be longer than Wait, which is %s, and at most 90s", s.StaleAfter, s.Wait)
	}
	if s.MinBackoff < time.Millisecond || s.MaxBackoff < s.MinBackoff {
		wrong("Settings.MinBackoff is %s and MaxBackoff is %s; they must be at least 1ms, and MaxBackoff not the shorter one", s.MinBackoff, s.MaxBackoff)
	}
	if s.Lease < 100*time.Millisecond {
		wrong("Settings.Lease is %s; it must be at least 100ms, and long enough to stop all grains of a member", s.Lease)
	}
	if s.Patience < 0 {
		wrong("Settings.Patience is %s; it must not be negative", s.Patience)
	}
	if !s.Disabled {
		errs = append(errs, s.findService(env, namespaceFile)...)
	}
	return s, errors.Join(errs...)
}

const orDisabled = ", or set Settings.Disabled to run without placement"

// findService completes what says where the plan is.
func (s *Settings) findService(env func(string) string, namespaceFile string) (errs []error) {
	wrong := func(what string, args ...any) { errs = append(errs, fmt.Errorf("placement: "+what, args...)) }
	s.URL = strings.TrimRight(cmp.Or(s.URL, defaultURL), "/")
	u, err := url.Parse(s.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		wrong("Settings.URL is %q; it must be an http or https address without user, query and fragment, such as %s", s.URL, defaultURL)
	} else if s.CAFile != "" && u.Scheme != "https" {
		wrong("Settings.CAFile has no effect, because Settings.URL is %q; set an https URL, or remove CAFile", s.URL)
	}
	if s.Namespace == "" {
		data, err := os.ReadFile(namespaceFile) //nolint:gosec // a fixed path, except in tests
		if err != nil {
			wrong("Settings.Namespace is empty, and %s cannot be read; set the namespace of the Knative Service"+orDisabled+": %w", namespaceFile, err)
		}
		s.Namespace = strings.TrimSpace(string(data))
	}
	if s.Namespace != "" && !label.MatchString(s.Namespace) {
		wrong("Settings.Namespace is %q, which cannot be a name in Kubernetes; it must be the namespace of the Knative Service", s.Namespace)
	}
	if s.Service = cmp.Or(s.Service, env("K_SERVICE")); s.Service == "" {
		wrong("Settings.Service is empty, and so is K_SERVICE, which Knative sets; set the name of the Knative Service" + orDisabled)
	} else if !label.MatchString(s.Service) {
		wrong("Settings.Service is %q, which cannot be a name in Kubernetes; it must be the name of the Knative Service", s.Service)
	}
	s.TokenFile = cmp.Or(s.TokenFile, defaultTokenFile)
	if _, err := os.ReadFile(s.TokenFile); err != nil {
		wrong("Settings.TokenFile cannot be read; mount the volume that has it"+orDisabled+": %w", err)
	}
	return errs
}

// ShardOf is the FNV-1a hash (32 bits) of an identity, modulo shards. It is the default of Settings.ShardOf, and must
// never change: members of old and new builds share a cluster.
func ShardOf(identity string, shards int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(identity))       // a hash never fails
	return int(h.Sum32() % uint32(shards)) //nolint:gosec // at most 65,536
}
