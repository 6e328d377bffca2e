// SPDX-License-Identifier: Apache-2.0

// Package settings reads ConfigMap config-cdevents.
//
// Its invariant: Current always returns complete and valid settings. A ConfigMap with
// an invalid value is rejected as a whole, with a message that names the key, and the
// last valid one stays in effect. At startup there is none, so the program exits:
// events with the wrong cluster URI could not be taken back.
package settings

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	cm "knative.dev/pkg/configmap/parser"

	"github.com/knative-cdevents/knative-cdevents/api/duration"
	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/hosts"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Name of the ConfigMap, in the controller's namespace.
const Name = "config-cdevents"

// SinkHostsKey is the key of SinkHosts.
const SinkHostsKey = "sink-hosts"

// EnvironmentKindsKey is the key of EnvironmentKinds.
const EnvironmentKindsKey = "environment-kinds"

// DefaultEnvironment is the default environment id. The specification requires it to be
// unique only together with the source of the event.
const DefaultEnvironment = "default"

// Settings is the operator's configuration for the whole cluster.
type Settings struct {
	// ClusterURI identifies the cluster. It is the source of its events.
	ClusterURI string
	// Environment applies where neither the namespace nor the source sets one.
	Environment v1alpha1.Environment

	RollbackTraffic, RollbackTemplate, RollbackWithdrawn bool

	ShiftedMinInterval  time.Duration
	StabilizationWindow time.Duration

	// SinkHosts are the hosts that events may be sent to; any host if it is empty.
	SinkHosts                                       hosts.List
	IncidentOutageAfter, IncidentFailedRolloutAfter time.Duration
	// IncidentNotDeployedAfter applies to Services that were never deployed.
	IncidentNotDeployedAfter time.Duration

	// IncidentDegradedAfter and SettleWithin apply to stateful clusters.
	IncidentDegradedAfter, SettleWithin time.Duration

	// EnvironmentKinds are the kinds whose objects are environments.
	EnvironmentKinds []schema.GroupKind
	// These limits apply to environments.
	EnvironmentOutageAfter, EnvironmentDegradedAfter, EnvironmentNotCreatedAfter, EnvironmentDeletedWithin time.Duration
}

// defaultEnvironmentKinds are the clusters of Cluster API, and those of the usual providers of Crossplane. Groups
// such as ecs.aws.upbound.io and rds.aws.upbound.io have a kind Cluster, too.
var defaultEnvironmentKinds = []string{
	"Cluster.cluster.x-k8s.io",
	"Cluster.eks.aws.upbound.io", "Cluster.eks.aws.m.upbound.io", "Cluster.eks.aws.crossplane.io",
	"Cluster.container.gcp.upbound.io", "Cluster.container.gcp.m.upbound.io", "Cluster.container.gcp.crossplane.io",
	"KubernetesCluster.containerservice.azure.upbound.io", "KubernetesCluster.containerservice.azure.m.upbound.io",
}

// Default returns the settings that apply without a ConfigMap. The cluster is
// identified by the UID of namespace kube-system, which is unique, stable and needs
// no configuration.
func Default(cluster types.UID) Settings {
	r := lifecycle.DefaultRules
	return Settings{
		ClusterURI:          "urn:uuid:" + string(cluster),
		Environment:         v1alpha1.Environment{ID: DefaultEnvironment},
		RollbackTraffic:     r.RollbackTraffic,
		RollbackTemplate:    r.RollbackTemplate,
		RollbackWithdrawn:   r.RollbackWithdrawn,
		ShiftedMinInterval:  r.ShiftedMinInterval,
		StabilizationWindow: r.Stabilization,

		IncidentOutageAfter:        r.OutageAfter,
		IncidentFailedRolloutAfter: r.FailedRolloutAfter,
		IncidentNotDeployedAfter:   r.NotDeployedAfter,
		IncidentDegradedAfter:      r.DegradedAfter,
		SettleWithin:               r.SettleWithin,

		EnvironmentKinds:           parseKinds(defaultEnvironmentKinds),
		EnvironmentOutageAfter:     r.EnvironmentOutageAfter,
		EnvironmentDegradedAfter:   r.EnvironmentDegradedAfter,
		EnvironmentNotCreatedAfter: r.EnvironmentNotCreatedAfter,
		EnvironmentDeletedWithin:   r.EnvironmentDeletedWithin,
	}
}

// Rules returns the lifecycle rules in the settings.
func (s Settings) Rules() lifecycle.Rules {
	return lifecycle.Rules{
		RollbackTraffic:    s.RollbackTraffic,
		RollbackTemplate:   s.RollbackTemplate,
		RollbackWithdrawn:  s.RollbackWithdrawn,
		ShiftedMinInterval: s.ShiftedMinInterval,
		Stabilization:      s.StabilizationWindow,
		OutageAfter:        s.IncidentOutageAfter,
		FailedRolloutAfter: s.IncidentFailedRolloutAfter,
		NotDeployedAfter:   s.IncidentNotDeployedAfter,
		DegradedAfter:      s.IncidentDegradedAfter,
		SettleWithin:       s.SettleWithin,

		EnvironmentOutageAfter:     s.EnvironmentOutageAfter,
		EnvironmentDegradedAfter:   s.EnvironmentDegradedAfter,
		EnvironmentNotCreatedAfter: s.EnvironmentNotCreatedAfter,
		EnvironmentDeletedWithin:   s.EnvironmentDeletedWithin,
	}
}

// keys of the ConfigMap.
var keys = map[string]bool{
	"cluster-uri": true, "environment-id": true, "environment-source": true,
	"rollback-traffic": true, "rollback-template": true, "rollback-withdrawn": true,
	"shifted-min-interval": true, "stabilization-window": true,
	SinkHostsKey:            true,
	"incident-outage-after": true, "incident-failed-rollout-after": true,
	"incident-not-deployed-after": true, "incident-degraded-after": true, "settle-within": true,
	EnvironmentKindsKey: true, "incident-environment-outage-after": true, "incident-environment-degraded-after": true,
	"incident-environment-not-created-after": true, "environment-deleted-within": true,
	"_example": true,
}

// maxText bounds texts that are part of every event. An event must stay below 64 KiB.
const maxText = 1024

// FromConfigMap parses the ConfigMap on top of the defaults.
func FromConfigMap(defaults Settings, c *corev1.ConfigMap) (Settings, error) {
	s := defaults
	var errs []error
	errs = append(errs,
		absolute(c.Data, "cluster-uri", &s.ClusterURI),
		cm.As("environment-id", &s.Environment.ID)(c.Data),
		absolute(c.Data, "environment-source", &s.Environment.Source),
		boolean(c.Data, "rollback-traffic", &s.RollbackTraffic),
		boolean(c.Data, "rollback-template", &s.RollbackTemplate),
		boolean(c.Data, "rollback-withdrawn", &s.RollbackWithdrawn),
		span(c.Data, "shifted-min-interval", maxSpan, &s.ShiftedMinInterval),
		span(c.Data, "stabilization-window", maxSpan, &s.StabilizationWindow),
		list(c.Data, SinkHostsKey, &s.SinkHosts),
		span(c.Data, "incident-outage-after", maxSpan, &s.IncidentOutageAfter),
		span(c.Data, "incident-failed-rollout-after", maxSpan, &s.IncidentFailedRolloutAfter),
		span(c.Data, "incident-not-deployed-after", maxSpan, &s.IncidentNotDeployedAfter),
		span(c.Data, "incident-degraded-after", maxSpan, &s.IncidentDegradedAfter),
		span(c.Data, "settle-within", maxSpan, &s.SettleWithin),
		kinds(c.Data, &s.EnvironmentKinds),
		span(c.Data, "incident-environment-outage-after", maxEnvironmentSpan, &s.EnvironmentOutageAfter),
		span(c.Data, "incident-environment-degraded-after", maxEnvironmentSpan, &s.EnvironmentDegradedAfter),
		span(c.Data, "incident-environment-not-created-after", maxEnvironmentSpan, &s.EnvironmentNotCreatedAfter),
		span(c.Data, "environment-deleted-within", maxEnvironmentSpan, &s.EnvironmentDeletedWithin),
	)
	for _, key := range []string{"cluster-uri", "environment-id", "environment-source"} {
		if n := len(c.Data[key]); n > maxText {
			errs = append(errs, fmt.Errorf("%s has %d bytes; it must not have more than %d, because it is part of every event",
				key, n, maxText))
		}
	}
	if strings.TrimSpace(s.Environment.ID) == "" {
		s.Environment.ID = defaults.Environment.ID
	}
	if s.Environment.Source != "" && strings.TrimSpace(c.Data["environment-id"]) == "" {
		errs = append(errs,
			errors.New("environment-source is set without environment-id; set both, or remove environment-source"))
	}
	if err := errors.Join(errs...); err != nil {
		return defaults, fmt.Errorf("ConfigMap %s/%s: %w", c.Namespace, c.Name, err)
	}
	return s, nil
}

// Check rejects a ConfigMap with an invalid value or an unknown key before it takes
// effect. FromConfigMap reads one that is already in effect, and ignores unknown keys.
func Check(c *corev1.ConfigMap) (Settings, error) {
	s, err := FromConfigMap(Default("a-cluster"), c)
	if keys := Unknown(c); len(keys) > 0 {
		err = errors.Join(err, fmt.Errorf("ConfigMap %s/%s: %q are not settings; key _example shows all settings",
			c.Namespace, c.Name, keys))
	}
	return s, err
}

// Unknown returns keys that are typos, or come from a later version. They are logged
// and ignored, so that a downgrade works. ConfigMap config-canary is treated alike.
func Unknown(c *corev1.ConfigMap) []string {
	var out []string
	for key := range c.Data {
		if !keys[key] {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// boolean parses true or false.
func boolean(data map[string]string, key string, into *bool) error {
	text, given := data[key]
	if !given {
		return nil
	}
	value, err := strconv.ParseBool(strings.TrimSpace(text))
	if err != nil {
		return fmt.Errorf("%s is %q; it must be true or false", key, text)
	}
	*into = value
	return nil
}

// port matches what follows the name of a host, which would be the scheme of a URI.
var port = regexp.MustCompile(`^[0-9]*$`)

// absolute parses an absolute URI. An empty value means that it is not set.
func absolute(data map[string]string, key string, into *string) error {
	var value string
	if err := cm.As(key, &value)(data); err != nil || value == "" {
		return err
	}
	u, err := url.Parse(value)
	// A URI that CloudEvents cannot carry would make every event invalid.
	if err != nil || !u.IsAbs() || (u.Host == "" && port.MatchString(u.Opaque)) || !cdevents.IsURI(value) {
		return fmt.Errorf("%s is %q, which is not an absolute URI; use one such as https://cluster.example/eu-1", key,
			sanitize.WithoutCredentials(value))
	}
	if sanitize.WithoutCredentials(value) != value {
		return fmt.Errorf("%s contains credentials; remove them, because it is part of every event", key)
	}
	*into = value
	return nil
}

// The upper bounds of durations prevent a value with which nothing would ever be reported. A slow provider needs
// hours to create or delete an environment.
const (
	maxSpan            = time.Hour
	maxEnvironmentSpan = 24 * time.Hour
)

// span parses a duration.
func span(data map[string]string, key string, most time.Duration, into *time.Duration) error {
	text, given := data[key]
	if !given {
		return nil
	}
	value, err := duration.Parse(text)
	if err != nil {
		return fmt.Errorf("%s must be a duration such as 10s: %w", key, err)
	}
	if value < 0 || value > most {
		return fmt.Errorf("%s is %s; it must be between 0s and %dh", key, value, most/time.Hour)
	}
	*into = value
	return nil
}

// list parses host names. It rejects a list of commas only, which would allow every
// host by mistake.
func list(data map[string]string, key string, into *hosts.List) error {
	value := strings.TrimSpace(data[key])
	if value == "" {
		return nil
	}
	all, err := hosts.Parse(value)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	if all.Empty() {
		return fmt.Errorf("%s is %q, which names no host; remove the key to allow all hosts", key, value)
	}
	*into = all
	return nil
}

// kindName is a kind and its group, such as Cluster.cluster.x-k8s.io.
var kindName = regexp.MustCompile(
	`^[A-Z][A-Za-z0-9]{0,62}\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$`,
)

// version matches the version that kubectl takes between a kind and its group.
var version = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?\..*\.`)

// maxKinds bounds the kinds: each costs an informer.
const maxKinds = 64

// kinds parses kinds, separated by commas. An empty list means that labels alone choose.
func kinds(data map[string]string, into *[]schema.GroupKind) error {
	value, given := data[EnvironmentKindsKey]
	if !given {
		return nil
	}
	var names []string
	for name := range strings.SplitSeq(value, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if len(name) > maxHost || !kindName.MatchString(name) {
			return fmt.Errorf("%s names %q; it must list kinds with their groups, such as Cluster.cluster.x-k8s.io",
				EnvironmentKindsKey, name)
		}
		if of := schema.ParseGroupKind(name); version.MatchString(of.Group) {
			_, group, _ := strings.Cut(of.Group, ".")
			return fmt.Errorf("%s names %q; all versions of a kind count, so use %s.%s", EnvironmentKindsKey, name, of.Kind, group)
		}
		names = append(names, name)
	}
	if len(names) > maxKinds {
		return fmt.Errorf("%s names %d kinds; it must not name more than %d", EnvironmentKindsKey, len(names), maxKinds)
	}
	*into = parseKinds(names)
	return nil
}

// maxHost is the longest name in DNS, with a kind before it.
const maxHost = 253

func parseKinds(names []string) []schema.GroupKind {
	var out []schema.GroupKind
	for _, name := range names {
		if of := schema.ParseGroupKind(name); !slices.Contains(out, of) {
			out = append(out, of)
		}
	}
	return out
}
