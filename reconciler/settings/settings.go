// Package settings reads ConfigMap config-cdevents.
//
// Its invariant: what Current returns is complete and valid. A ConfigMap with
// any wrong value is refused as a whole, with a message that names the key, and
// the last good one stays in force. Only at the start, when there is no last
// good one, a wrong value keeps the program from running: events that name the
// wrong cluster could not be taken back.
package settings

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cm "knative.dev/pkg/configmap/parser"

	"github.com/knative-cdevents/knative-cdevents/api/duration"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/emitter/delivery/hosts"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Name of the ConfigMap, in the controller's namespace.
const Name = "config-cdevents"

// SinkHostsKey is the key of SinkHosts.
const SinkHostsKey = "sink-hosts"

// DefaultEnvironment is the environment's id where nobody gave one. It is unique
// together with the source of the event, as the specification has it.
const DefaultEnvironment = "default"

// Settings is what the operator decided for the whole cluster.
type Settings struct {
	// ClusterURI identifies the cluster: the source of its events.
	ClusterURI string
	// Environment that objects run in where neither their namespace nor a
	// source says otherwise.
	Environment v1alpha1.Environment

	RollbackTraffic, RollbackTemplate, RollbackWithdrawn bool

	ShiftedMinInterval  time.Duration
	StabilizationWindow time.Duration

	// SinkHosts are those that events may be sent to; where it is empty, to any.
	SinkHosts                                       hosts.List
	IncidentOutageAfter, IncidentFailedRolloutAfter time.Duration

	// IncidentDegradedAfter and SettleWithin are about stateful clusters.
	IncidentDegradedAfter, SettleWithin time.Duration
}

// Default is in force where the ConfigMap says nothing. The cluster is then
// told from others by its UID, which is that of its namespace kube-system: it
// stays the same as long as the cluster is the same, and needs no configuration.
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
		IncidentDegradedAfter:      r.DegradedAfter,
		SettleWithin:               r.SettleWithin,
	}
}

// Rules of the lifecycle that the settings give.
func (s Settings) Rules() lifecycle.Rules {
	return lifecycle.Rules{
		RollbackTraffic:    s.RollbackTraffic,
		RollbackTemplate:   s.RollbackTemplate,
		RollbackWithdrawn:  s.RollbackWithdrawn,
		ShiftedMinInterval: s.ShiftedMinInterval,
		Stabilization:      s.StabilizationWindow,
		OutageAfter:        s.IncidentOutageAfter,
		FailedRolloutAfter: s.IncidentFailedRolloutAfter,
		DegradedAfter:      s.IncidentDegradedAfter,
		SettleWithin:       s.SettleWithin,
	}
}

// keys of the ConfigMap.
var keys = map[string]bool{
	"cluster-uri": true, "environment-id": true, "environment-source": true,
	"rollback-traffic": true, "rollback-template": true, "rollback-withdrawn": true,
	"shifted-min-interval": true, "stabilization-window": true,
	SinkHostsKey:            true,
	"incident-outage-after": true, "incident-failed-rollout-after": true,
	"incident-degraded-after": true, "settle-within": true,
	"_example": true,
}

// maxText bounds what becomes part of every event, which must stay below 64 KiB.
const maxText = 1024

// FromConfigMap reads the ConfigMap over the defaults.
func FromConfigMap(defaults Settings, c *corev1.ConfigMap) (Settings, error) {
	s := defaults
	var errs []error
	errs = append(errs,
		absolute(c.Data, "cluster-uri", &s.ClusterURI),
		cm.As("environment-id", &s.Environment.ID)(c.Data),
		absolute(c.Data, "environment-source", &s.Environment.Source),
		cm.As("rollback-traffic", &s.RollbackTraffic)(c.Data),
		cm.As("rollback-template", &s.RollbackTemplate)(c.Data),
		cm.As("rollback-withdrawn", &s.RollbackWithdrawn)(c.Data),
		span(c.Data, "shifted-min-interval", &s.ShiftedMinInterval),
		span(c.Data, "stabilization-window", &s.StabilizationWindow),
		list(c.Data, SinkHostsKey, &s.SinkHosts),
		span(c.Data, "incident-outage-after", &s.IncidentOutageAfter),
		span(c.Data, "incident-failed-rollout-after", &s.IncidentFailedRolloutAfter),
		span(c.Data, "incident-degraded-after", &s.IncidentDegradedAfter),
		span(c.Data, "settle-within", &s.SettleWithin),
	)
	for _, key := range []string{"cluster-uri", "environment-id", "environment-source"} {
		if n := len(c.Data[key]); n > maxText {
			errs = append(errs, fmt.Errorf("%s has %d bytes; it must not have more than %d, because it is part of every event", key, n, maxText))
		}
	}
	if strings.TrimSpace(s.Environment.ID) == "" {
		s.Environment.ID = defaults.Environment.ID
	}
	if s.Environment.Source != "" && strings.TrimSpace(c.Data["environment-id"]) == "" {
		errs = append(errs, errors.New("environment-source is set without environment-id; set both, or remove environment-source"))
	}
	if err := errors.Join(errs...); err != nil {
		return defaults, fmt.Errorf("ConfigMap %s/%s: %w", c.Namespace, c.Name, err)
	}
	return s, nil
}

// Check refuses a ConfigMap with a wrong value, or with a key that is no setting,
// before it has an effect. What is in force already is read by FromConfigMap, which
// passes over such keys.
func Check(c *corev1.ConfigMap) (Settings, error) {
	s, err := FromConfigMap(Default("a-cluster"), c)
	if keys := unknown(c); len(keys) > 0 {
		err = errors.Join(err, fmt.Errorf("ConfigMap %s/%s: %q are not settings; key _example shows all settings", c.Namespace, c.Name, keys))
	}
	return s, err
}

// unknown keys are a slip of the pen, or of a later version than this one: they
// are told and passed over, so that going back to an earlier version works.
func unknown(c *corev1.ConfigMap) []string {
	var out []string
	for key := range c.Data {
		if !keys[key] {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// absolute reads a URI that means the same wherever it is read; an empty value
// is none.
func absolute(data map[string]string, key string, into *string) error {
	var value string
	if err := cm.As(key, &value)(data); err != nil || value == "" {
		return err
	}
	u, err := url.Parse(value)
	// What events cannot carry would make all of them unsendable.
	if err != nil || !u.IsAbs() || (u.Host == "" && u.Opaque == "") || !cdevents.IsURI(value) {
		return fmt.Errorf("%s is %q, which is not an absolute URI; use one such as https://cluster.example/eu-1", key, value)
	}
	*into = value
	return nil
}

// span reads a duration that is not negative, and not so long that nothing would
// ever be told.
func span(data map[string]string, key string, into *time.Duration) error {
	text, given := data[key]
	if !given {
		return nil
	}
	value, err := duration.Parse(text)
	if err != nil {
		return fmt.Errorf("%s must be a duration such as 10s: %w", key, err)
	}
	if value < 0 || value > time.Hour {
		return fmt.Errorf("%s is %s; it must be between 0s and 1h", key, value)
	}
	*into = value
	return nil
}

// list reads hosts. One that says nothing but commas would allow any host, which
// nobody can have meant.
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
